"""Calls the daemon from inside a sandbox: imported by the scripts of hostile agents."""

import json
import os
import urllib.error
import urllib.request

URL = os.environ["ROOKERY_URL"]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def own_headers():
    """The credential that the sandbox itself was given, if any."""
    session = os.environ.get("ROOKERY_SESSION")
    return {"X-Rookery-Session": session} if session else {}


def http(method, path, body=None, headers=None):
    """Sends a request to the daemon. Returns (status, text); a refused connection is status 0."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **(own_headers() if headers is None else headers)}
    request = urllib.request.Request(URL + path, data, headers, method=method)
    try:
        with DIRECT.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def tool(name, /, **arguments):
    """Calls an MCP tool. Returns the result, or what went wrong as {"failed": ...}."""
    accept = {"Accept": "application/json, text/event-stream", **own_headers()}
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "hostile", "version": "1"},
    }
    try:
        session, _ = _rpc({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, accept)
        accept["Mcp-Session-Id"] = session or ""
        _rpc({"jsonrpc": "2.0", "method": "notifications/initialized"}, accept)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        _, answer = _rpc(call, accept)
        return answer
    except (OSError, ValueError) as error:
        return {"failed": str(error)}


def _rpc(message, headers):
    request = urllib.request.Request(
        URL + "/mcp", json.dumps(message).encode(), {"Content-Type": "application/json", **headers}
    )
    with DIRECT.open(request, timeout=60) as answer:
        text = answer.read().decode()
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:")] or [text]
        replies = [json.loads(line) for line in lines if line.strip()]
        result = next((reply for reply in replies if "id" in reply), None)
        return answer.headers.get("Mcp-Session-Id"), result
