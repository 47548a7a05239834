#!/usr/bin/env python3
"""A stand-in for Cursor's agent, which needs access to Cursor's servers. Its version says that it is a stand-in.

It accepts only the documented flags, reads the servers from .cursor/mcp.json of its workspace, starts them with the
variables of that file and a few of its own, speaks MCP to them, and prints the documented events. FAKE_CURSOR_SCRIPT
names the file that replaces the model: a list of turns, each a list of calls {"tool", "arguments"} and one {"say"};
{"hang": true} sleeps for an hour.
"""
import json
import os
import re
import subprocess
import sys
import time
import uuid

VERSION = "0.0.0-FAKE (a stand-in, not Cursor)"
SWITCHES = {"-p", "--print", "--force", "--trust", "--approve-mcps"}
VALUES = {"--output-format", "--workspace", "--resume", "--model"}
INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def fail(reason):
    print(f"error: {reason}", file=sys.stderr)
    sys.exit(1)


def arguments(argv):
    options, prompt = {}, []
    rest = iter(argv)
    for argument in rest:
        if argument in ("--version", "-v"):
            print(VERSION)
            sys.exit(0)
        if argument in SWITCHES:
            options[argument] = True
        elif argument in VALUES:
            options[argument] = next(rest, None)
            if options[argument] is None:
                fail(f"option '{argument}' needs a value")
        elif argument.startswith("-"):
            fail(f"unknown option '{argument}'")
        else:
            prompt.append(argument)
    if len(prompt) != 1:
        fail(f"expected one prompt, got {len(prompt)}")
    for needed in ("-p", "--trust", "--approve-mcps", "--force"):
        if needed not in options:
            fail(f"cannot ask for approval: {needed} is missing")
    if options.get("--output-format") != "stream-json":
        fail("only the output format stream-json is supported")
    return options, prompt[0]


class Server:
    """An MCP server, started as its entry in mcp.json says."""

    def __init__(self, entry):
        expand = lambda text: re.sub(r"\$\{env:(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env.update({name: expand(value) for name, value in entry.get("env", {}).items()})
        argv = [expand(part) for part in [entry["command"], *entry.get("args", [])]]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        self.last = 0
        client = {"name": "fake-cursor-agent", "version": VERSION}
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.request("initialize", version)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = {tool["name"] for tool in self.request("tools/list", {})["tools"]}

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    fail(f"{method}: {message['error']}")
                return message["result"]
        fail(f"the server ended without an answer to {method}")


def main():
    options, prompt = arguments(sys.argv[1:])
    folder = options.get("--workspace", os.getcwd())
    with open(os.path.join(folder, ".cursor", "mcp.json")) as file:
        servers = {name: Server(entry) for name, entry in json.load(file)["mcpServers"].items()}
    chats = os.path.join(os.environ["HOME"], ".cursor", "chats")
    os.makedirs(chats, exist_ok=True)
    session, past = options.get("--resume") or str(uuid.uuid4()), []
    chat = os.path.join(chats, f"{session}.json")
    if "--resume" in options:
        with open(chat) as file:
            past = json.load(file)

    def emit(kind, **fields):
        print(json.dumps({"type": kind, "session_id": session, **fields}), flush=True)

    message = lambda text: {"role": "assistant", "content": [{"type": "text", "text": text}]}
    emit("system", subtype="init", apiKeySource="env", cwd=folder, model=options.get("--model", "fake"))
    emit("user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
    with open(os.environ["FAKE_CURSOR_SCRIPT"]) as file:
        turn = json.load(file)[len(past)]
    answer = ""
    for step in turn:
        if step.get("hang"):
            time.sleep(3600)
        elif "say" in step:
            answer = step["say"]
            emit("assistant", message=message(answer))
        else:
            call(step, servers, emit)
    with open(chat, "w") as file:
        json.dump([*past, prompt], file)
    emit("result", subtype="success", is_error=False, duration_ms=1, duration_api_ms=1, result=answer)


def call(step, servers, emit):
    name, server = next((entry for entry in servers.items() if step["tool"] in entry[1].tools), (None, None))
    if server is None:
        fail(f"no server has the tool {step['tool']}")
    request = {"name": f"{name}-{step['tool']}", "toolName": step["tool"], "providerIdentifier": name}
    request["args"] = step["arguments"]
    number = str(uuid.uuid4())
    emit("tool_call", subtype="started", call_id=number, tool_call={"mcpToolCall": {"args": request}})
    answer = server.request("tools/call", {"name": step["tool"], "arguments": step["arguments"]})
    done = {"args": request, "result": {"success": answer}}
    emit("tool_call", subtype="completed", call_id=number, tool_call={"mcpToolCall": done})
    if answer.get("isError"):
        fail(f"{step['tool']} failed: {answer}")


main()
