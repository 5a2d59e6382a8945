"""An MCP server in plain JSON lines that does what none should: see the modes at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

MODE = sys.argv[1]
SCHEMA = {"type": "object"}
JUNK = {
    "words": b"Listening on stdio...\n",
    "bytes": b"\xff\xfe\x00\x80\n",
    "json": b'{"jsonrpc": "2.0", "id": 77, "result": {}}\n[]\n7\nnull\n{}\n{"id": {}}\n',
    "deep": b"[" * 50_000 + b"\n",
    "surrogate": b'{"jsonrpc": "2.0", "method": "\\ud800"}\n',
    "number": b'{"jsonrpc": "2.0", "id": ' + b"9" * 5_000 + b', "result": {}}\n',
    "long": b"x" * 5_000_000 + b"\n",
}
TOOLS: dict[str, Any] = {
    "twins": [
        {"name": "a", "inputSchema": SCHEMA},
        {"name": "b", "inputSchema": SCHEMA},
        {"name": "a", "inputSchema": SCHEMA, "description": "another"},
    ],
    "again": [{"name": "a", "inputSchema": SCHEMA}] * 3,
    "prefixed": [{"name": "a__a", "inputSchema": SCHEMA}],
    "shapes": [{"name": 7, "inputSchema": []}],
    "nothing": None,
    "surrogates": [{"name": "a\ud800", "description": "\udfff", "inputSchema": SCHEMA}],
}


def send(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def messages() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        sys.stdout.buffer.write(JUNK.get(MODE, b""))
        yield json.loads(line)


NO_FIELDS = {"type": "object", "properties": {}}
FORM = {
    "type": "object",
    "required": ["city"],
    "properties": {
        "city": {"type": "string", "title": "City"},
        "days": {"type": "integer"},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "rain": {"type": "boolean"},
    },
}


def ask(received: Iterator[dict[str, Any]], method: str, **params: Any) -> dict[str, Any]:
    """Ask the client something in the middle of a call, and return its answer as the result."""
    send(id="q", method=method, params=params)
    got = next(one for one in received if one.get("id") == "q")
    return {"content": [{"type": "text", "text": json.dumps(got.get("result") or got.get("error"))}]}


def answer(message: dict[str, Any], received: Iterator[dict[str, Any]]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "h", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS.get(MODE, [{"name": "a", "inputSchema": SCHEMA}])}
        case _ if MODE == "asks":
            return ask(received, "elicitation/create", message="Your password?", requestedSchema=NO_FIELDS)
        case _ if MODE == "form":
            return ask(received, "elicitation/create", message="Which city?", requestedSchema=FORM)
        case _ if MODE == "page":
            page = {"mode": "url", "url": "https://example.org/x", "elicitationId": "e"}
            return ask(received, "elicitation/create", message="Log in there.", **page)
        case _ if MODE == "samples":
            said = {"role": "user", "content": {"type": "text", "text": "hi"}}
            return ask(received, "sampling/createMessage", messages=[said], maxTokens=10)
        case _ if MODE == "roots":
            return ask(received, "roots/list")
        case _:
            return {"content": [{"type": "text", "text": "fine"}]}


if MODE == "flood":
    while True:
        sys.stdout.buffer.write(b"junk" * 1_000 + b"\n")
received = messages()
for request in received:
    if "id" in request and "method" in request:
        if request["method"] == "server/discover":
            send(id=request["id"], error={"code": -32601, "message": "unknown"})
        else:
            send(id=request["id"], result=answer(request, received))
