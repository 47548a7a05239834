"""The Python SDK's client: lists and calls our tools, by the address, the socket or the program that is given.

client.py http URL MODE | client.py socket PATH | client.py stdio PROGRAM ARGUMENT...
"""

import json
import re
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def use(client: Client, name: str) -> None:
    tools = (await client.list_tools()).tools
    assert any(tool.name == "task_claim" for tool in tools)
    # The client checks results against the output schemas by itself.
    me = (await client.call_tool("agent_register", {"name": name, "runtime": "custom"})).structured_content
    assert re.fullmatch("ag_[0-9a-z]{12}", me["id"]), me
    agents = (await client.call_tool("agent_list", {})).structured_content["agents"]
    assert any(agent["id"] == me["id"] for agent in agents)
    missing = await client.call_tool("task_get", {"id": "task_none"})
    assert missing.is_error and json.loads(missing.content[0].text)["code"] == "TASK_NOT_FOUND"
    claim = await client.call_tool("resource_claim", {"path": f"src/{name}", "agent_id": me["id"]})
    assert claim.structured_content == {"granted": True}, claim
    inbox = await client.read_resource(f"rookery://agents/{me['id']}/inbox")
    assert json.loads(inbox.contents[0].text)["unread"] == 0
    await client.call_tool("agent_unregister", {"id": me["id"]})


async def main(way: str, target: str, *rest: str) -> None:
    if way == "stdio":
        client = Client(StdioServerParameters(command=target, args=list(rest)))
    elif way == "socket":
        http = httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=target))
        client = Client(streamable_http_client("http://localhost/mcp", http_client=http))
    else:
        client = Client(target, mode=rest[0])
    async with client:
        await use(client, f"py-{way}")
    print(f"python over {way} {' '.join(rest) if way == 'http' else ''}: ok")


anyio.run(main, *sys.argv[1:])
