"""Message threads: a request that continues a message sends only what is new, and the server holds the rest (THR-02 … THR-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.anthropic.typed_blocks import messages_of
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from segue.emulators.anthropic.typed_blocks import Body

HELD = "threads"
"""Of the memory: the id of each message → the thread that ends with it."""
LIFE = 300
"""Seconds (THR-05)."""
_PINNED = ("model", "system", "tools", "tool_choice")


def _previous(body: Body) -> str | None:
    """The message that a request continues; None if it continues none."""
    thread = body.get("thread")
    if not isinstance(thread, dict) or thread.get("type") != "continue":
        return None
    previous = thread.get("previous_message_id")
    return previous if isinstance(previous, str) else ""


def _thread(body: Body, context: Context) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = context.memory.get(HELD, {}).get(_previous(body))
    return found if found is not None and context.now - found["at"] <= LIFE else None


@rule("THR-03")
def whole(body: Body, context: Context) -> Body:
    """The request as the model reads it: with what was held, where the request does not say it anew."""
    held = _thread(body, context) if _previous(body) is not None else None
    messages = body.get("messages")
    if held is None or not isinstance(messages, list):
        return body
    inherited = {name: held[name] for name in ("system", "tools") if name in held and name not in body}
    return {**inherited, **body, "messages": [*held["messages"], *messages]}


@rule("THR-09")
def with_offered_tools(body: Body) -> Body:
    """A request of a thread with the tools that are offered now: system messages in it add some and remove others."""
    if not isinstance(body.get("thread"), dict):
        return body
    given = body.get("tools")
    tools = {_name_of(tool): tool for tool in given} if isinstance(given, list) else {}
    changes = [change for _, message in messages_of(body) for change in _tool_changes(message)]
    for kind, tool in changes:
        if kind == "tool_addition" and isinstance(tool.get("definition"), dict):
            tools[_name_of(tool["definition"])] = tool["definition"]
        elif kind == "tool_removal":
            tools.pop(_name_of(tool), None)
    return {**body, "tools": list(tools.values())} if changes else body


def _tool_changes(message: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    content = message.get("content") if message.get("role") == "system" else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [
        (block["type"], block["tool"])
        for block in blocks
        if block.get("type") in ("tool_addition", "tool_removal") and isinstance(block.get("tool"), dict)
    ]


def _name_of(tool: Any) -> str:
    return str(tool.get("name")) if isinstance(tool, dict) else ""


def is_resumed(body: Body, context: Context) -> bool:
    """Whether a request continues a reply that the model only paused."""
    held = _thread(body, context)
    return held is not None and held["paused"]


@rule("THR-07")
def nothing_new(body: Body, context: Context) -> Complaints:
    """Without a message only a paused reply is continued."""
    if body.get("messages") == [] and _thread(body, context) is not None and not is_resumed(body, context):
        yield Refusal("THR-07", "messages: at least one message is required")


def complaints(body: Body, context: Context) -> Complaints:
    """About the thread that a request continues. In a pure check it is not known, and nothing is missed."""
    yield from unsupported(body)
    if _previous(body) is None or HELD not in context.memory:
        return
    yield from not_found(body, context)
    yield from already_continued(body, context)
    yield from in_flight(body, context)
    yield from changed(body, context)
    yield from nothing_new(body, context)


@rule("THR-05")
@rule("THR-16")
def not_found(body: Body, context: Context) -> Complaints:
    if _thread(body, context) is None:
        yield Refusal(
            "THR-16",
            "The thread could not be continued: it was not found, or has expired.",
            status=404,
            type="not_found_error",
            code="thread_not_found",
        )


@rule("THR-06")
def already_continued(body: Body, context: Context) -> Complaints:
    held = _thread(body, context)
    if held is not None and held["continued"]:
        text = "The message has been continued already; create a thread with the whole conversation."
        yield Refusal("THR-06", text, code="thread_already_continued")


@rule("THR-06")
def in_flight(body: Body, context: Context) -> Complaints:
    held = _thread(body, context)
    if held is not None and held["in_flight"]:
        text = "The message is being continued by another request."
        yield Refusal("THR-06", text, code="thread_continue_in_flight")


@rule("THR-16")
def unsupported(body: Body) -> Complaints:
    """What no thread can have, whether it is created or continued."""
    if isinstance(body.get("thread"), dict) and body.get("fallbacks"):
        text = "thread: it cannot be combined with `fallbacks`."
        yield Refusal("THR-16", text, code="thread_unsupported_request", unsupported=("fallbacks",))


@rule("THR-04")
def changed(body: Body, context: Context) -> Complaints:
    held = _thread(body, context)
    for name in _PINNED:
        if held is not None and name in body and body[name] != held.get(name):
            text = f"{name}: it differs from that of the thread."
            yield Refusal("THR-04", text, code="thread_fingerprint_mismatch")


@rule("THR-02")
@rule("THR-08")
def keep(
    body: Body, read: Body, answer: Mapping[str, Any], memory: MutableMapping[str, Any], now: int
) -> None:
    """Hold the thread that ends with this answer. `read`: the request as the model read it."""
    if not isinstance(body.get("thread"), dict) or answer["stop_reason"] == "refusal":
        return  # a refused turn is dropped: what was before it can be continued (THR-08)
    threads = memory.setdefault(HELD, {})
    if (previous := _previous(body)) in threads:
        threads[previous]["continued"] = True
    reply = {"role": "assistant", "content": answer["content"]}
    threads[answer["id"]] = {
        **{name: read[name] for name in _PINNED if name in read},
        "messages": [*read["messages"], reply],
        "at": now,
        "paused": answer["stop_reason"] == "pause_turn",
        "continued": False,
        "in_flight": False,
    }


def then_keep(
    portions: Iterator[bytes],
    body: Body,
    read: Body,
    answer: Mapping[str, Any],
    memory: MutableMapping[str, Any],
    now: int,
) -> Iterator[bytes]:
    """A stream that was broken off leaves no thread: the last event is what completes it."""
    before = memory.setdefault(HELD, {}).get(_previous(body), {})
    before["in_flight"] = True
    try:
        yield from portions
        keep(body, read, answer, memory, now)
    finally:
        before["in_flight"] = False
