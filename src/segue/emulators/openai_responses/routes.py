"""`/v1/responses`: create, read back, delete, count; what is stored lives in the emulator's memory. What a responder
may know of a request, and the segments by which its prefix is cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.model.model_reply import Offer, Prompt, Reply
from segue.emulators.openai_chat.prompt import chosen, schema_in, text_in
from segue.emulators.openai_responses import checks, conversations, replies
from segue.emulators.openai_responses.chain import OUTPUTS, stored_chain
from segue.emulators.openai_responses.errors import ERRORS
from segue.emulators.openai_responses.items import items_in, type_of
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.emulators.emulator import Emulator


def prompt_of(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]], *, thinking: bool) -> Prompt:
    text, results = _last_turn(items)
    # Tools may also be introduced in the middle.
    offered = [*(body.get("tools") or ()), *(tool for item in items for tool in _introduced(item))]
    functions = [tool for tool in offered if tool.get("type") == "function"]
    offers = tuple(Offer(tool["name"], tool.get("parameters") or {}) for tool in functions)
    offers, must_call = chosen(offers, body.get("tool_choice"))
    return Prompt(
        provider="openai",
        model=str(body.get("model", "")),
        text=text,
        results=results,
        tools=offers,
        must_call=must_call,
        parallel=body.get("parallel_tool_calls") is not False,
        schema=schema_in((body.get("text") or {}).get("format")),
        thinking=thinking,
    )


def _last_turn(items: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[str, ...]]:
    results: list[str] = []
    for item in reversed(items):
        if item.get("role") == "user":
            return text_in(item.get("content")), tuple(reversed(results))
        if type_of(item) in OUTPUTS:
            results.append(_said(item.get("output")))
    return "", tuple(reversed(results))


def _introduced(item: Mapping[str, Any]) -> list[Any]:
    tools = item.get("tools") if type_of(item) in ("additional_tools", "tool_search_output") else None
    return tools if isinstance(tools, list) else []


def _said(output: object) -> str:
    """The text of an output, also of what a shell wrote."""
    chunks = output if isinstance(output, list) else []
    wrote = [chunk.get(name) for chunk in chunks if isinstance(chunk, dict) for name in ("stdout", "stderr")]
    return "".join([text for text in wrote if isinstance(text, str)]) or text_in(output)


def segments_of(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> list[object]:
    return [body.get("tools"), body.get("instructions"), *items]


def _admitted(request: Request, emulator: Emulator) -> tuple[dict[str, Any], list[Any], Context]:
    """The body, its items behind those of the stored chain, and its circumstances."""
    memory = emulator.memory("openai")
    memory.setdefault("responses", {})
    memory.setdefault("items", {})
    memory.setdefault(conversations.HELD, {})

    def items(body: Mapping[str, Any]) -> list[Any]:
        return [*stored_chain(body, memory), *items_in(body)]

    body, context = admitted(
        request,
        emulator,
        ERRORS,
        checks.complaints,
        lambda body: segments_of(body, items(body)),
        remember=False,
    )
    return body, items(body), context


def create(request: Request, emulator: Emulator) -> Response:
    body, items, context = _admitted(request, emulator)
    emulator.remember("openai", context, segments_of(body, items))
    # A compaction is the server's own work: it takes no reply of the script.
    asked = replies.asks_for_compaction(items)
    reply = Reply() if asked else emulator.reply(prompt_of(body, items, thinking=_thinks(body, context)))
    final = replies.whole(reply, body, context)
    headers = ERRORS.headers(None, context)
    if body.get("stream") is True and not context.sends_whole:
        portions = _then_store(replies.stream(reply, body, context), final, items, emulator, body)
        return stream_response(portions, headers=headers, delay=reply.delay)
    _store(final, items, emulator, body)
    return json_response(final, headers=headers)


def _thinks(body: Mapping[str, Any], context: Context) -> bool:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    return bool(context.facts.get("reasoning")) and effort != "none"


def _then_store(
    portions: Iterator[bytes],
    final: dict[str, Any],
    items: list[Any],
    emulator: Emulator,
    body: Mapping[str, Any],
) -> Iterator[bytes]:
    """A response that was broken off is not stored: the last event is what completes it."""
    yield from conversations.in_flight(portions, body, emulator.memory("openai"))
    _store(final, items, emulator, body)


def _store(final: dict[str, Any], items: list[Any], emulator: Emulator, body: Mapping[str, Any]) -> None:
    memory = emulator.memory("openai")
    output = final["output"]
    conversations.append(body, items_in(body), output, memory)
    if final["store"] is False:
        return
    memory["responses"][final["id"]] = {"response": final, "input": items, "items": [*items, *output]}
    for position, item in enumerate(output):
        before = output[position - 1] if position else {}
        after = output[position + 1] if position + 1 < len(output) else {}
        memory["items"][item["id"]] = {
            "reasoning": before.get("id") if before.get("type") == "reasoning" else None,
            "follower": after.get("id"),
        }


@rule("RESP-52", "M")
def compact(request: Request, emulator: Emulator) -> Response:
    """The user's messages as they were, then one item that stands for everything else."""
    body, items, context = _admitted(request, emulator)
    kept = [dict(item) for item in items if type_of(item) == "message" and item.get("role") == "user"]
    return json_response(
        {
            "id": f"resp_{context.reply_id}",
            "object": "response.compaction",
            "created_at": context.now,
            "output": [*kept, replies.compacted(items, context)],
            "usage": replies.usage(Reply(), body, context),
        },
        headers=ERRORS.headers(None, context),
    )


@rule("OAI-06", "H")
def count_input(request: Request, emulator: Emulator) -> Response:
    body, _, context = _admitted(request, emulator)
    counted = checks.input_tokens(body, context)
    return json_response({"object": "response.input_tokens", "input_tokens": counted})


def _found(request: Request, emulator: Emulator) -> dict[str, Any]:
    context = permitted(request, emulator, ERRORS)
    name = request.params["id"]
    stored: dict[str, dict[str, Any]] = emulator.memory("openai").get("responses", {})
    if name not in stored:
        text = f"Response with id '{name}' not found."
        raise RefusedError(Refusal("RESP-50", text, status=404), context)
    return stored[name]


def read(request: Request, emulator: Emulator) -> Response:
    return json_response(_found(request, emulator)["response"])


def read_items(request: Request, emulator: Emulator) -> Response:
    items = _found(request, emulator)["input"]
    ids = [item.get("id") for item in items] or [None]
    return json_response(
        {"object": "list", "data": items, "first_id": ids[0], "last_id": ids[-1], "has_more": False}
    )


def delete(request: Request, emulator: Emulator) -> Response:
    _found(request, emulator)
    name = request.params["id"]
    del emulator.memory("openai")["responses"][name]
    return json_response({"id": name, "object": "response", "deleted": True})


ROUTES: list[Route] = [
    *conversations.ROUTES,
    ("POST", "/v1/responses", create),
    ("POST", "/v1/responses/input_tokens", count_input),
    ("POST", "/v1/responses/compact", compact),
    ("GET", "/v1/responses/{id}", read),
    ("DELETE", "/v1/responses/{id}", delete),
    ("GET", "/v1/responses/{id}/input_items", read_items),
]
