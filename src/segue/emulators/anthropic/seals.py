"""Signatures of thinking blocks: what each is bound to, and which of these bonds a replayed block has broken.

A signature carries claims about its birth: who asked whom, the block's own text, its place in the reply, and
digests of all that came before. Verifying means making the same claims again from the request and comparing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators import signatures
from segue.emulators.anthropic import reading
from segue.emulators.anthropic.reading import Block, Body

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.emulators.context import Context

PREFIX = "EqQB"
THOUGHTS = ("thinking", "redacted_thinking")
Claims = dict[str, str]
Place = tuple[str, Body]
"""Role and block: the conversation as one flat list, as the model reads it."""


def places(body: Body) -> list[Place]:
    return [(block.role, block.value) for block in reading.blocks_of(body)]


def claims(body: Body, before: Sequence[Place], context: Context) -> Claims:
    """What a thinking block after `before` is bound to; its own text and its reply are not among it."""
    return {
        "platform": context.platform,
        "account": context.account,
        "model": context.model,
        "system": signatures.digest(_system(body)),
        "tools": signatures.digest(_tools(body, before)),
        "messages": signatures.digest([_said(place) for place in before if not _is_thought(place)]),
        "previous": _last_thought(before),
        "run": signatures.digest([_said(place) for place in _current_run(before)]),
    }


def sign(body: Body, before: Sequence[Place], context: Context, *, text: str, shown: bool, reply: str) -> str:
    """`reply` names the answer and how many thinking blocks it has, e.g. ``msg_01…/2``."""
    own = {"text": signatures.digest(text), "shown": str(shown), "reply": reply}
    return signatures.seal(context.secret, {**claims(body, before, context), **own}, PREFIX)


def opened(block: Body, context: Context) -> Claims | None:
    """The claims of a block that this emulator issued, else None."""
    signature = block.get("signature")
    return signatures.unseal(context.secret, signature, PREFIX) if isinstance(signature, str) else None


def same_text(block: Body, born: Claims) -> bool:
    # Text put into the empty field of an omitted block is ignored (ANT-51).
    if born.get("shown") != "True":
        return True
    return born.get("text") == signatures.digest(reading.text_of(block.get("thinking")))


def thoughts(body: Body) -> Iterator[tuple[Block, list[Place]]]:
    """Every thinking block with all that stands before it."""
    before: list[Place] = []
    for block in reading.blocks_of(body):
        if block.type in THOUGHTS:
            yield block, list(before)
        before.append((block.role, block.value))


def _is_thought(place: Place) -> bool:
    return place[1].get("type") in THOUGHTS


def _said(place: Place) -> list[Any]:
    """A block as it counts for a seal: cache marks are no part of what was said."""
    role, block = place
    if _is_thought(place):
        return [role, "thought", _identity(block)]
    return [role, {key: value for key, value in _uncached(block).items() if value is not None}]


def _uncached(value: Mapping[str, Any]) -> dict[str, Any]:
    content = value.get("content")
    kept = {key: item for key, item in value.items() if key != "cache_control"}
    if isinstance(content, list):
        kept["content"] = [_uncached(item) if isinstance(item, dict) else item for item in content]
    return kept


def _identity(block: Body) -> str:
    return reading.text_of(block.get("signature")) or reading.text_of(block.get("data"))


def _last_thought(before: Sequence[Place]) -> str:
    return next(
        (signatures.digest(_identity(place[1])) for place in reversed(before) if _is_thought(place)), ""
    )


def _current_run(before: Sequence[Place]) -> list[Place]:
    run: list[Place] = []
    for place in reversed(before):
        if place[0] != "assistant":
            break
        run.append(place)
    return run[::-1]


def _system(body: Body) -> list[Any]:
    return [_uncached(block) for _, block in reading.content_blocks(body.get("system"))]


def _tools(body: Body, before: Sequence[Place]) -> list[Any]:
    """The tool list without those that are deferred and not yet referred to (ANT-57)."""
    referred = set(_references([block for _, block in before]))
    return [
        _uncached(tool)
        for _, tool in reading.tools_of(body)
        if tool.get("defer_loading") is not True or tool.get("name") in referred
    ]


def _references(values: object) -> Iterator[str]:
    if isinstance(values, list):
        for value in values:
            yield from _references(value)
    elif isinstance(values, dict):
        if values.get("type") == "tool_reference":
            yield reading.text_of(values.get("tool_name"))
        for key in ("content", "tool_references"):
            yield from _references(values.get(key))
