"""Signatures of thinking blocks: what each is bound to, and which of these bonds a replayed block has broken.

A signature carries claims about its birth: who asked whom, the block's own text, its place in the reply, and
digests of all that came before. Verifying means making the same claims again from the request and comparing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators import signatures
from segue.emulators.anthropic import typed_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.anthropic.typed_blocks import Block, Body
    from segue.emulators.rules import Context

PREFIX = "EqQB"
THOUGHTS = ("thinking", "redacted_thinking")
Claims: TypeAlias = dict[str, str]


class Trail:
    """What has been said up to a point, as digests that grow block by block."""

    def __init__(self, body: Body, context: Context) -> None:
        self._body = body
        self._referred: set[str] = set()
        self._claims: Claims = {
            "platform": context.platform,
            "account": context.account,
            "model": context.model,
            "system": signatures.digest(_system(body)),
            "tools": self._tools(),
            "messages": "",
            # The thinking block before, and everything before in the same assistant turn.
            "previous": "",
            "run": "",
        }

    def add(self, role: str, block: Body) -> None:
        said = _said(role, block)
        if block.get("type") in THOUGHTS:
            self._claims["previous"] = signatures.digest(said)
        else:
            self._claims["messages"] = signatures.digest([self._claims["messages"], said])
        run = signatures.digest([self._claims["run"], said])
        self._claims["run"] = run if role == "assistant" else ""
        references = set(_references(block)) - self._referred
        if references:
            self._referred |= references
            self._claims["tools"] = self._tools()

    def claims(self) -> Claims:
        """What a thinking block at this point is bound to; its own text and its reply are not among it."""
        return dict(self._claims)

    def _tools(self) -> str:
        """The tool list without those that are deferred and not yet referred to (ANT-57)."""
        return signatures.digest(
            [
                _uncached(tool)
                for _, tool in typed_blocks.tools_of(self._body)
                if tool.get("defer_loading") is not True
                or typed_blocks.text_of(tool.get("name")) in self._referred
            ]
        )


def trail_of(body: Body, context: Context) -> Trail:
    """All that a request says."""
    trail = Trail(body, context)
    for block in typed_blocks.blocks_of(body):
        trail.add(block.role, block.value)
    return trail


def sign(trail: Trail, secret: bytes, *, text: str, shown: bool, reply: str) -> str:
    """`reply` names the answer and how many thinking blocks it has, e.g. ``msg_01…/2``."""
    own = {"text": signatures.digest(text), "shown": str(shown), "reply": reply}
    return signatures.seal(secret, {**trail.claims(), **own}, PREFIX)


def opened(block: Body, context: Context) -> Claims | None:
    """The claims of a block that this emulator issued, else None."""
    signature = block.get("signature")
    return signatures.unseal(context.secret, signature, PREFIX) if isinstance(signature, str) else None


def same_text(block: Body, born: Claims) -> bool:
    # Text put into the empty field of an omitted block is ignored (ANT-51).
    if born.get("shown") != "True":
        return True
    return born.get("text") == signatures.digest(typed_blocks.text_of(block.get("thinking")))


def thoughts(body: Body, context: Context) -> Iterator[tuple[Block, Claims]]:
    """Every thinking block, with what it would be bound to if it were issued where it now stands."""
    trail = Trail(body, context)
    for block in typed_blocks.blocks_of(body):
        if block.type in THOUGHTS:
            yield block, trail.claims()
        trail.add(block.role, block.value)


def _said(role: str, block: Body) -> list[Any]:
    """A block as it counts for a seal: cache marks are no part of what was said."""
    if block.get("type") in THOUGHTS:
        return [role, typed_blocks.text_of(block.get("signature")) or typed_blocks.text_of(block.get("data"))]
    return [role, {key: value for key, value in _uncached(block).items() if value is not None}]


def _uncached(value: Mapping[str, Any]) -> dict[str, Any]:
    content = value.get("content")
    kept = {key: item for key, item in value.items() if key != "cache_control"}
    if isinstance(content, list):
        kept["content"] = [_uncached(item) if isinstance(item, dict) else item for item in content]
    return kept


def _system(body: Body) -> list[Any]:
    return [_uncached(block) for _, block in typed_blocks.content_blocks(body.get("system"))]


def _references(values: object) -> Iterator[str]:
    if isinstance(values, list):
        for value in values:
            yield from _references(value)
    elif isinstance(values, dict):
        if values.get("type") == "tool_reference":
            yield typed_blocks.text_of(values.get("tool_name"))
        for key in ("content", "tool_references"):
            yield from _references(values.get(key))
