"""Custom tools, namespaces and the provider's own tools on the Responses wire, and offered to others."""

from __future__ import annotations

import json
from typing import Any

from segue.conversation.events import CallStarted
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS
from segue.transcript.adopt import adopt
from segue.transcript.render import render

_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "read", "parameters": _SCHEMA, "strict": False, "defer_loading": True},
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edit files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'},
    },
    {
        "type": "namespace",
        "name": "mcp__docs",
        "description": "The documents.",
        "tools": [
            {"type": "function", "name": "search", "description": "Find.", "parameters": _SCHEMA},
            {"type": "custom", "name": "query"},
        ],
    },
    {"type": "web_search", "external_web_access": True},
    {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example/mcp"},
]


def _encoded(to: str, tools: list[dict[str, Any]]) -> tuple[dict[str, Any], set[str]]:
    decoded = DIALECTS["openai_responses"].decode_request({"model": "m", "input": "hi", "tools": tools})
    dialect = DIALECTS[to]
    transcript = render(Conversation((user("hi"),)), None, dialect.rules)
    encoded = dialect.encode_request(transcript, decoded.tools, Options(model="m"), UNKNOWN)
    return json.loads(encoded.body), {repair.kind for repair in encoded.repairs if repair.lossy}


def test_tools_of_every_kind_go_back_to_their_wire_as_they_came() -> None:
    body, lost = _encoded("openai_responses", TOOLS)
    assert body["tools"] == TOOLS
    assert lost == set()


def test_another_wire_is_offered_custom_tools_and_namespaces_as_functions_and_a_servers_tools_are_reported() -> (
    None
):
    body, lost = _encoded("openai_chat", TOOLS)
    functions = {tool["function"]["name"]: tool["function"] for tool in body["tools"]}
    assert list(functions) == ["read", "apply_patch", "mcp__docs__search", "mcp__docs__query"]
    assert functions["apply_patch"]["parameters"]["required"] == ["input"]
    assert 'start: "x"' in functions["apply_patch"]["description"]
    assert lost == {"tool_not_offered"}


def test_the_kind_and_the_names_of_a_tool_lead_back_from_what_was_offered() -> None:
    tools = DIALECTS["openai_responses"].decode_request({"input": "hi", "tools": TOOLS}).tools
    assert [(tool.name, tool.kind, tool.namespace, tool.local_name) for tool in tools] == [
        ("read", "function", "", ""),
        ("apply_patch", "custom", "", ""),
        ("mcp__docs__search", "function", "mcp__docs", "search"),
        ("mcp__docs__query", "custom", "mcp__docs", "query"),
        ("web_search", "server", "", ""),
        ("shop", "server", "", ""),
    ]


def test_a_tool_that_was_found_by_search_has_one_name_in_the_reply_and_in_the_history() -> None:
    """Its own name is its namespace (as Codex's tool search returns it)."""
    responses, chat = DIALECTS["openai_responses"], DIALECTS["openai_chat"]
    call = {
        "type": "function_call",
        "name": "look_up",
        "namespace": "look_up",
        "call_id": "c1",
        "arguments": "{}",
    }
    result = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    given = [{"role": "user", "content": "hi"}, call, result]
    decoded = responses.decode_request({"model": "m", "input": given})
    started = responses.decode_reply(json.dumps({"output": [call], "status": "completed"}).encode())
    assert {event.name for event in started if isinstance(event, CallStarted)} == {"look_up"}
    conversation = adopt(decoded.messages, dialect="openai_responses").conversation
    sent: dict[str, Any] = {}
    for dialect in (chat, responses):
        transcript = render(conversation, None, dialect.rules)
        sent[dialect.name] = json.loads(
            dialect.encode_request(transcript, (), Options(model="m"), UNKNOWN).body
        )
    assert sent["openai_chat"]["messages"][1]["tool_calls"][0]["function"]["name"] == "look_up"
    assert sent["openai_responses"]["input"][1:] == [call, result]
