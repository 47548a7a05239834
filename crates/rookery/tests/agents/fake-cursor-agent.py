#!/usr/bin/env python3
"""A stand-in for Cursor's agent, which cannot be had without its maker's network. It is no Cursor and says so.

It takes the flags that are documented and no others, reads the servers from .cursor/mcp.json of its workspace, starts them
with the variables that the file hands on and few others, speaks MCP to them, and writes the events that are documented. What
it would think is in the file that FAKE_CURSOR_SCRIPT names: a list of turns, each a list of calls {"tool", "arguments"} and
one {"say"}; {"hang": true} never ends.
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
HANDED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


def refuse(why):
    print(f"error: {why}", file=sys.stderr)
    sys.exit(1)


def arguments(argv):
    said, prompt = {}, []
    rest = iter(argv)
    for argument in rest:
        if argument in ("--version", "-v"):
            print(VERSION)
            sys.exit(0)
        if argument in SWITCHES:
            said[argument] = True
        elif argument in VALUES:
            said[argument] = next(rest, None)
            if said[argument] is None:
                refuse(f"option '{argument}' needs a value")
        elif argument.startswith("-"):
            refuse(f"unknown option '{argument}'")
        else:
            prompt.append(argument)
    if len(prompt) != 1:
        refuse(f"one prompt is needed, not {len(prompt)}")
    for needed in ("-p", "--trust", "--approve-mcps", "--force"):
        if needed not in said:
            refuse(f"nobody is here to be asked: {needed} is missing")
    if said.get("--output-format") != "stream-json":
        refuse("this stand-in writes stream-json")
    return said, prompt[0]


class Server:
    """An MCP server that is started with what its entry says."""

    def __init__(self, entry):
        expand = lambda text: re.sub(r"\$\{env:(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
        env = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
        env.update({name: expand(value) for name, value in entry.get("env", {}).items()})
        argv = [expand(part) for part in [entry["command"], *entry.get("args", [])]]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        self.last = 0
        client = {"name": "fake-cursor-agent", "version": VERSION}
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.ask("initialize", version)
        self.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = {tool["name"] for tool in self.ask("tools/list", {})["tools"]}

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.last += 1
        self.tell({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    refuse(f"{method}: {message['error']}")
                return message["result"]
        refuse(f"the server ended before it answered {method}")


def main():
    said, prompt = arguments(sys.argv[1:])
    folder = said.get("--workspace", os.getcwd())
    with open(os.path.join(folder, ".cursor", "mcp.json")) as file:
        servers = {name: Server(entry) for name, entry in json.load(file)["mcpServers"].items()}
    chats = os.path.join(os.environ["HOME"], ".cursor", "chats")
    os.makedirs(chats, exist_ok=True)
    session, past = said.get("--resume") or str(uuid.uuid4()), []
    chat = os.path.join(chats, f"{session}.json")
    if "--resume" in said:
        with open(chat) as file:
            past = json.load(file)

    def emit(kind, **fields):
        print(json.dumps({"type": kind, "session_id": session, **fields}), flush=True)

    text = lambda words: {"role": "assistant", "content": [{"type": "text", "text": words}]}
    emit("system", subtype="init", apiKeySource="env", cwd=folder, model=said.get("--model", "fake"))
    emit("user", message={"role": "user", "content": [{"type": "text", "text": prompt}]})
    with open(os.environ["FAKE_CURSOR_SCRIPT"]) as file:
        turn = json.load(file)[len(past)]
    words = ""
    for step in turn:
        if step.get("hang"):
            time.sleep(3600)
        elif "say" in step:
            words = step["say"]
            emit("assistant", message=text(words))
        else:
            call(step, servers, emit)
    with open(chat, "w") as file:
        json.dump([*past, prompt], file)
    emit("result", subtype="success", is_error=False, duration_ms=1, duration_api_ms=1, result=words)


def call(step, servers, emit):
    name, server = next((one for one in servers.items() if step["tool"] in one[1].tools), (None, None))
    if server is None:
        refuse(f"no server has the tool {step['tool']}")
    asked = {"name": f"{name}-{step['tool']}", "toolName": step["tool"], "providerIdentifier": name}
    asked["args"] = step["arguments"]
    number = str(uuid.uuid4())
    emit("tool_call", subtype="started", call_id=number, tool_call={"mcpToolCall": {"args": asked}})
    answer = server.ask("tools/call", {"name": step["tool"], "arguments": step["arguments"]})
    done = {"args": asked, "result": {"success": answer}}
    emit("tool_call", subtype="completed", call_id=number, tool_call={"mcpToolCall": done})
    if answer.get("isError"):
        refuse(f"{step['tool']} failed: {answer}")


main()
