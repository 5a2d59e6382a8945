"""A request's body as a provider's cache sees it: tools, system prompt and messages in their order, whatever their order in the JSON.

Marks for the cache are no part of the prompt, and neither is what is not read letter by letter: signatures count nothing, and media
little. So two requests can be compared, and what they have in common can be weighed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.gateway.prompt_caches.facts import CacheFacts

PromptGroup: TypeAlias = Literal["tools", "system", "options", "history"]
GROUPS: Final[dict[str, PromptGroup]] = {
    "tools": "tools",
    "toolConfig": "tools",
    "functions": "tools",
    "system": "system",
    "instructions": "system",
    "systemInstruction": "system",
    "system_instruction": "system",
    "messages": "history",
    "input": "history",
    "contents": "history",
}
"""Fields of all wires. Any other is an option."""
PASSING: Final = frozenset(
    {
        "stream",
        "metadata",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "stream_options",
        "user",
    }
    | {"store", "cache_control", "diagnostics", "safety_identifier", "service_tier", "include"}
)
"""Options that may differ without harm to a cache."""
MARK_FIELDS: Final = ("cache_control", "cachePoint")
_UNREAD: Final = frozenset({"signature", "thoughtSignature", "thought_signature", "encrypted_content"})
_MEDIA: Final = frozenset({"data", "bytes", "image_url", "file_data"})
_LONG: Final = 512
"""Characters from which on a value of media is taken for its bytes."""
_ORDER: Final[tuple[PromptGroup, ...]] = ("tools", "system", "options", "history")
_SYSTEM_FIRST: Final[tuple[PromptGroup, ...]] = ("system", "tools", "options", "history")


@final
class PromptPart(Struct, frozen=True):
    """A tool, a block of the system prompt, or a block of a message."""

    group: PromptGroup
    place: str
    """`messages[3].content[1]`."""
    data: bytes
    """Its JSON, without marks and without what is not read."""
    mark: int = 0
    """Seconds that the request asks to have everything up to here kept; 0 if nothing is marked."""

    @property
    def weight(self) -> int:
        """Options are compared, but no part of the prompt."""
        return 0 if self.group == "options" else len(self.data)


@final
class PromptDifference(Struct, frozen=True):
    """Where two prompts first differ."""

    group: PromptGroup
    place: str
    weight: int
    """Bytes of the prompt before it."""
    total: int
    """Bytes of the earlier prompt."""
    parts: int
    """Whole parts before it."""


def parts_of(body: bytes, facts: CacheFacts) -> list[PromptPart]:
    """In the order of the prompt. Raises msgspec.DecodeError if it is no JSON object."""
    fields = msgspec.json.decode(body, type=dict[str, Any])
    held: dict[PromptGroup, list[PromptPart]] = {group: [] for group in _ORDER}
    always = 300 if fields.get("cache_control") else 0
    for name, value in fields.items():
        group = GROUPS.get(name, "options")
        if group == "options":
            if name in facts.level:
                held[group].append(PromptPart(group, name, _encoded(value)))
        else:
            for part in _parts(group, name, value, facts):
                held[part.group].append(part)
    order = _SYSTEM_FIRST if facts.system_first else _ORDER
    parts = [part for group in order for part in held[group]]
    if always and parts:  # the last block is marked by itself
        last = parts[-1]
        parts[-1] = PromptPart(last.group, last.place, last.data, last.mark or always)
    return parts


def _parts(group: PromptGroup, name: str, value: Any, facts: CacheFacts) -> Iterator[PromptPart]:
    if name == "toolConfig" and isinstance(value, dict):
        name, value = "toolConfig.tools", value.get("tools", ())
    elements = value if isinstance(value, list) else [value]
    begins = group == "history"
    for number, element in enumerate(elements):
        place = f"{name}[{number}]" if isinstance(value, list) else name
        # On the wires of OpenAI the system prompt is the first messages.
        begins = begins and isinstance(element, dict) and element.get("role") in ("system", "developer")
        if begins:
            yield PromptPart("system", place, _encoded(element), mark_in(element))
            continue
        blocks = element.get("content") if isinstance(element, dict) else None
        if group == "history" and facts.marks and isinstance(blocks, list) and blocks:
            yield from _blocks(group, place, element.get("role", ""), blocks)
        else:
            yield PromptPart(group, place, _encoded(element), mark_in(element))


def _blocks(group: PromptGroup, place: str, role: str, blocks: Sequence[Any]) -> Iterator[PromptPart]:
    """Blocks of a message; one that only says that a cache ends here belongs to the block before it."""
    made: list[PromptPart] = []
    for number, block in enumerate(blocks):
        if isinstance(block, dict) and "cachePoint" in block and made:
            last = made[-1]
            made[-1] = PromptPart(last.group, last.place, last.data, mark_in(block))
        else:
            data = _encoded([role, block])
            made.append(PromptPart(group, f"{place}.content[{number}]", data, mark_in(block)))
    yield from made


def mark_in(value: Any) -> int:
    """The seconds for which a block asks to be kept, with all before it."""
    if not isinstance(value, dict):
        return 0
    for field in MARK_FIELDS:
        mark = value.get(field)
        if isinstance(mark, dict):
            return 3600 if mark.get("ttl") == "1h" else 300
    inner = value.get("content")
    return max(map(mark_in, inner), default=0) if isinstance(inner, list) else 0


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(readable(value))


def readable(value: Any) -> Any:
    """Without marks, without what is not read letter by letter."""
    if isinstance(value, list):
        return [
            readable(held) for held in value if not (isinstance(held, dict) and held.keys() == {"cachePoint"})
        ]
    if not isinstance(value, dict):
        return value
    return {
        name: f"{len(held)} of {hash(held):x}"
        if name in _MEDIA and isinstance(held, str) and len(held) >= _LONG
        else readable(held)
        for name, held in value.items()
        if name not in MARK_FIELDS and name not in _UNREAD
    }


def weight_of(parts: Sequence[PromptPart]) -> int:
    return sum([part.weight for part in parts])


def first_difference(before: Sequence[PromptPart], after: Sequence[PromptPart]) -> PromptDifference | None:
    """None if all that was sent before is the beginning of what is sent now."""
    weight, total = 0, weight_of(before)
    for number, part in enumerate(before):
        other = after[number] if number < len(after) else None
        if other is not None and other.data == part.data and other.group == part.group:
            weight += part.weight
            continue
        if other is None or other.group != part.group:
            # A list has become shorter or longer: what stands here belongs to the earlier of both groups.
            shown = part if other is None or _earlier(part, other, before, after) else other
            return PromptDifference(shown.group, shown.place, weight, total, number)
        inner = common_bytes(part.data, other.data) if part.weight else 0
        return PromptDifference(part.group, part.place, weight + inner, total, number)
    return None


def _earlier(
    part: PromptPart, other: PromptPart, before: Sequence[PromptPart], after: Sequence[PromptPart]
) -> bool:
    """Whether the group of the first stands before that of the second in the prompt, by either of both."""
    for parts in (before, after):
        order = [one.group for one in parts]
        if part.group in order and other.group in order:
            return order.index(part.group) < order.index(other.group)
    return True


def options_changed(before: bytes, after: bytes) -> str:
    """The name of an option that differs and might have cost the cache; empty if none does."""
    try:
        was = msgspec.json.decode(before, type=dict[str, msgspec.Raw])
        now = msgspec.json.decode(after, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    for name in sorted(was.keys() | now.keys()):
        if name in GROUPS or name in PASSING:
            continue
        if bytes(was.get(name, msgspec.Raw(b""))) != bytes(now.get(name, msgspec.Raw(b""))):
            return name
    return ""


_STEP: Final = 16 << 10


def common_bytes(one: bytes, other: bytes, at: int = 0, behind: int = 0) -> int:
    """So many bytes are the same from these places on, the start of both unless they are given."""
    # A slice of bytes is a copy, and those of a view are none.
    view, most = memoryview(other)[behind:], min(len(one) - at, len(other) - behind)
    if one.startswith(view[:most], at):
        return most
    low = 0
    while one.startswith(view[low : low + _STEP], at + low):
        low += _STEP
    high = min(low + _STEP, most)
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(view[low:middle], at + low):
            low = middle
        else:
            high = middle - 1
    return low
