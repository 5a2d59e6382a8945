"""A client of each wire: it sends back what it got, with the results of its tools, and knows nothing of us."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

from segue.conversation.blocks import Origin, ToolCall
from segue.conversation.events import Event, Reply, fold
from segue.dialects.registry import DIALECTS
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import Responder

WIRES: Final = (
    "openai_chat",
    "openai_responses",
    "anthropic",
    "gemini",
    "gemini_interactions",
    "mistral",
    "ollama",
    "kimi",
    "converse",
)
RESULT: Final = "done"


def used_ids(client: str, body: dict[str, Any]) -> list[str]:
    """The call ids in the client's history."""
    messages = DIALECTS[client].decode_request({"model": "m", **body}).messages
    return [block.native_id for message in messages for block in message.blocks if type(block) is ToolCall]


def respond_whole(made: Responder, events: list[Event]) -> list[Event]:
    return [sent for event in events for sent in made.feed(event)] + made.close()


def write_stream(client: str, events: list[Event], model: str = "asked-for") -> bytes:
    encoder = DIALECTS[client].new_encoder(model)
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def read_stream(client: str, portions: list[bytes]) -> list[Event]:
    decoder = DIALECTS[client].new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()


def responder_for(client: str, maker: str, body: dict[str, Any], nonce: str, **fields: Any) -> Responder:
    decoded = DIALECTS[client].decode_request({"model": "m", **body})
    request = ClientRequest(
        wire=DIALECTS[client].client,
        nonce=nonce,
        model="asked-for",
        used_ids=used_ids(client, body),
        names=fields.pop("names", {}),
        tools=decoded.tools,
    )
    return Responder(request, Origin(maker), **fields)


def sent_back(client: str, reply: Reply) -> dict[str, Any]:
    """A reply that came in a stream, as the client's SDK puts it together."""
    whole = json.loads(DIALECTS[client].encode_reply(reply))
    assert isinstance(whole, dict)
    return whole


def next_request(client: str, body: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """The request after a whole reply: all of it again, then what its tools returned, or the user's next words."""
    body = deepcopy(body)
    match client:
        case "anthropic":
            content = reply["content"]
            results: list[dict[str, Any]] = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": RESULT}
                for block in content
                if block["type"] == "tool_use"
            ]
            more: list[dict[str, Any]] = results or [{"type": "text", "text": "Go on."}]
            body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": more}]
        case "gemini":
            content = reply["candidates"][0]["content"]
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            parts: list[dict[str, Any]] = [
                {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": RESULT}}}
                for call in calls
            ]
            body["contents"] += [content, {"role": "user", "parts": parts or [{"text": "Go on."}]}]
        case "gemini_interactions":
            results = [
                {"type": "function_result", "call_id": step["id"], "name": step["name"], "result": RESULT}
                for step in reply["steps"]
                if step["type"] == "function_call"
            ]
            said = {"type": "user_input", "content": [{"type": "text", "text": "Go on."}]}
            body["input"] += [*reply["steps"], *(results or [said])]
        case "openai_responses":
            kinds = {
                "function_call": "function_call_output",
                "custom_tool_call": "custom_tool_call_output",
            }
            results = [
                {"type": kinds[item["type"]], "call_id": item["call_id"], "output": RESULT}
                for item in reply["output"]
                if item["type"] in kinds
            ]
            body["input"] += [*reply["output"], *(results or [{"role": "user", "content": "Go on."}])]
        case "converse":
            message = reply["output"]["message"]
            results = [
                {"toolResult": {"toolUseId": block["toolUse"]["toolUseId"], "content": [{"text": RESULT}]}}
                for block in message["content"]
                if "toolUse" in block
            ]
            body["messages"] += [message, {"role": "user", "content": results or [{"text": "Go on."}]}]
        case "ollama":
            message = reply["message"]
            results = [
                {"role": "tool", "tool_name": call["function"]["name"], "content": RESULT}
                for call in message.get("tool_calls", ())
            ]
            body["messages"] += [message, *(results or [{"role": "user", "content": "Go on."}])]
        case _:
            message = {
                name: held for name, held in reply["choices"][0]["message"].items() if held is not None
            }
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": RESULT}
                for call in message.get("tool_calls", ())
            ]
            body["messages"] += [message, *(results or [{"role": "user", "content": "Go on."}])]
    return body


def folded(client: str, events: list[Event]) -> Reply:
    return fold(events, Origin(client))
