// The TypeScript SDK's client: lists and calls our tools, by the address or by the program that is given.
//   client.mjs http URL | client.mjs stdio PROGRAM ARGUMENT...
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [way, target, ...rest] = process.argv.slice(2);
const transport =
  way === "stdio"
    ? new StdioClientTransport({ command: target, args: rest })
    : new StreamableHTTPClientTransport(new URL(target));
const client = new Client({ name: "typescript", version: "1" });
await client.connect(transport);

const { tools } = await client.listTools();
assert(tools.some((tool) => tool.name === "task_claim"));

// The client checks results against the output schemas by itself.
const me = (await client.callTool({ name: "agent_register", arguments: { name: `ts-${way}`, runtime: "custom" } }))
  .structuredContent;
assert.match(me.id, /^ag_[0-9a-z]{12}$/);
const { agents } = (await client.callTool({ name: "agent_list", arguments: {} })).structuredContent;
assert(agents.some((agent) => agent.id === me.id));
const missing = await client.callTool({ name: "task_get", arguments: { id: "task_none" } });
assert.equal(missing.isError, true);
assert.equal(JSON.parse(missing.content[0].text).code, "TASK_NOT_FOUND");

const uri = `rookery://agents/${me.id}/inbox`;
const told = new Promise((resolve) => client.setNotificationHandler(ResourceUpdatedNotificationSchema, resolve));
await client.subscribeResource({ uri });
const inbox = JSON.parse((await client.readResource({ uri })).contents[0].text);
assert.equal(inbox.unread, 0);
if (process.env.ROOKERY_URL) {
  const body = JSON.stringify({ title: "work", assigned_by: "somebody", assigned_to: me.id });
  const headers = { "content-type": "application/json" };
  const made = await fetch(`${process.env.ROOKERY_URL}/tasks`, { method: "POST", headers, body });
  assert.equal(made.status, 201);
  assert.equal((await told).params.uri, uri);
  const { id } = await made.json();
  const claim = await client.callTool({ name: "task_claim", arguments: { task_id: id, agent_id: me.id } });
  assert.equal(claim.structuredContent.success, true);
}
await client.callTool({ name: "agent_unregister", arguments: { id: me.id } });
await client.close();
console.log(`typescript over ${way}: ok`);
