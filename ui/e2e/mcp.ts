// A client that speaks MCP over HTTP, as small as it can be: it connects as an agent and calls tools.

import type { Daemon } from './daemon';

export class Mcp {
  private id = 0;

  private constructor(
    private readonly daemon: Daemon,
    private readonly agent: string,
    private session: string,
  ) {}

  static async connect(daemon: Daemon, agent: string): Promise<Mcp> {
    const client = new Mcp(daemon, agent, '');
    await client.post('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'e2e', version: '1' } });
    await client.post('notifications/initialized', undefined, false);
    return client;
  }

  async tool(name: string, args: object = {}): Promise<Record<string, unknown>> {
    const { structuredContent } = (await this.post('tools/call', { name, arguments: args })) as { structuredContent: Record<string, unknown> };
    return structuredContent;
  }

  private async post(method: string, params: unknown, asks = true): Promise<unknown> {
    const headers: Record<string, string> = {
      'content-type': 'application/json', accept: 'application/json, text/event-stream', 'x-agent-id': this.agent,
      ...(this.session ? { 'mcp-session-id': this.session, 'mcp-protocol-version': '2025-06-18' } : {}),
    };
    const message = { jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }), ...(asks ? { id: (this.id += 1) } : {}) };
    const response = await fetch(`${this.daemon.url}/mcp`, { method: 'POST', headers, body: JSON.stringify(message) });
    this.session = response.headers.get('mcp-session-id') ?? this.session;
    const text = await response.text();
    if (!asks) return undefined;
    const lines = text.split('\n').filter((line) => line.startsWith('data:') && line.includes('"jsonrpc"'));
    const answer = JSON.parse(lines.length > 0 ? (lines.at(-1) ?? '').slice(5) : text) as { result?: unknown; error?: unknown };
    if (answer.error) throw new Error(JSON.stringify(answer.error));
    return answer.result;
  }
}
