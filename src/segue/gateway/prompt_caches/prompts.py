"""A request's body as a provider's cache sees it: tools, system prompt and messages in their order, whatever their order in the JSON.

Marks for the cache are no part of the prompt, and neither is what is not read letter by letter: signatures count nothing, and media
little. So two requests can be compared, and what they have in common can be weighed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from segue.cache_budget import SizedCache

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_CACHE_POINT: Final = {"cachePoint"}
_NOT_READ: Final = frozenset(
    {*MARK_FIELDS, "signature", "thoughtSignature", "thought_signature", "encrypted_content"}
)
_NESTED: Final = (dict, list)
_MEDIA: Final = frozenset({"data", "bytes", "image_url", "file_data"})
_LONG: Final = 512
"""Characters from which on a value of media is taken for its bytes."""
_LEAST_TOOLS: Final = 1024
"""Bytes of shorter tools are taken apart as fast as they are looked for."""
_PART_BYTES: Final = 300
"""Of a part, beside its data."""
_END: Final = 32
"""How many of their last bytes tools are looked for by."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = ord("[")
_TOOLS: Final = "tools"
_TOOLS_FIELD: Final = b'"tools":'
_LOOKED_AT: Final = 8
"""So many tools are compared with those of a body, those used last first."""
_STAND_IN: Final = Raw(b"0.%d" % randbits(64))
"""In place of tools that are known. No client can guess it."""
_ELEMENTS: Final = msgspec.json.Decoder(list[Raw])
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


@final
class ToolParts(SizedCache[tuple[str, int, bytes], tuple[Raw, tuple[PromptPart, ...]]]):
    """The parts of tools by their JSON: they are most of a request, and a program sends the same ones each time."""

    def of(self, name: str, value: Raw, facts: CacheFacts) -> tuple[PromptPart, ...]:
        """Of a field that holds tools."""
        if len(value) < _LEAST_TOOLS:
            return tuple(_parts("tools", name, msgspec.json.decode(value), facts))
        key = name, len(value), bytes(memoryview(value)[-_END:])
        known = self.get(key)
        if known is not None and known[0] == value:
            return known[1]
        parts = tuple(_parts("tools", name, msgspec.json.decode(value), facts))
        self.keep(key, (value.copy(), parts), len(value) + _size_of(parts))
        return parts

    def fields_of(self, body: bytes) -> tuple[dict[str, Raw], tuple[PromptPart, ...] | None]:
        """The outer fields of a body. If its `tools` are known, the parts of these: the field itself is not read then, since to skip
        it takes longer than all else that is done with the body."""
        at = body.find(_TOOLS_FIELD)
        while at >= 0:
            start = at + len(_TOOLS_FIELD)
            for key in islice(reversed(self._kept), _LOOKED_AT):
                written, parts = self._kept[key][0]
                if key[0] == _TOOLS and body.startswith(written, start):
                    self.get(key)
                    fields = _FIELDS.decode(b"".join((body[:start], _STAND_IN, body[start + len(written) :])))
                    # Another object within the body may hold the same tools, in a field of the same name.
                    is_outer = fields.get(_TOOLS) == _STAND_IN
                    return (fields, parts) if is_outer else (_FIELDS.decode(body), None)
            at = body.find(_TOOLS_FIELD, start)
        return _FIELDS.decode(body), None


def _size_of(parts: Sequence[PromptPart]) -> int:
    return sum([_PART_BYTES + len(part.data) for part in parts])


@final
class TakenApart(Struct, frozen=True, eq=False):
    """A request's body by its parts."""

    parts: list[PromptPart]
    """In the order of the prompt."""
    history: Mapping[str, Sequence[tuple[Raw, Sequence[PromptPart]]]] = {}
    """Of each field that holds messages: every message as it was written, with its parts."""
    size: int = 0
    """The bytes that it takes beside its body; its tools may be those of others, too."""


def taken_apart(
    body: bytes, facts: CacheFacts, tools: ToolParts | None = None, before: TakenApart | None = None
) -> TakenApart:
    """Raises msgspec.DecodeError if it is no JSON object. `tools`: those that are known. `before`: a request to the same model that
    may begin with the same messages. What is known is not read again."""
    held: dict[PromptGroup, list[PromptPart]] = {group: [] for group in _ORDER}
    history: dict[str, list[tuple[Raw, Sequence[PromptPart]]]] = {}
    always = 0
    tools = tools if tools is not None else ToolParts(0)
    fields, known_tools = tools.fields_of(body)
    for name, value in fields.items():
        group = GROUPS.get(name, "options")
        if name == "cache_control" and msgspec.json.decode(value):
            always = 300
        if group == "tools":
            known = known_tools if name == _TOOLS else None
            held[group] += known if known is not None else tools.of(name, value, facts)
        elif group == "history" and memoryview(value)[0] == _LIST:
            earlier = before.history.get(name, ()) if before is not None else ()
            history[name] = _messages(name, _ELEMENTS.decode(value), facts, earlier)
            for _, parts in history[name]:
                for part in parts:
                    held[part.group].append(part)
        elif group != "options":
            for part in _parts(group, name, msgspec.json.decode(value), facts):
                held[part.group].append(part)
        elif name in facts.level:
            held[group].append(PromptPart(group, name, _encoded(msgspec.json.decode(value))))
    order = _SYSTEM_FIRST if facts.system_first else _ORDER
    parts = [part for group in order for part in held[group]]
    if always and parts:  # the last block is marked by itself
        last = parts[-1]
        parts[-1] = PromptPart(last.group, last.place, last.data, last.mark or always)
    return TakenApart(parts, history, _size_of(parts))


def _messages(
    name: str, given: Sequence[Raw], facts: CacheFacts, known: Sequence[tuple[Raw, Sequence[PromptPart]]]
) -> list[tuple[Raw, Sequence[PromptPart]]]:
    made: list[tuple[Raw, Sequence[PromptPart]]] = []
    for written, (before, parts) in zip(given, known, strict=False):
        if written != before:
            break
        made.append((written, parts))
    # On the wires of OpenAI the system prompt is the first messages.
    begins = not made or made[-1][1][0].group == "system"
    for number in range(len(made), len(given)):
        message = msgspec.json.decode(given[number])
        begins = begins and _is_system(message)
        group: PromptGroup = "system" if begins else "history"
        made.append((given[number], [*_element(group, f"{name}[{number}]", message, facts)]))
    return made


def _is_system(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in ("system", "developer")


def _parts(group: PromptGroup, name: str, value: Any, facts: CacheFacts) -> Iterator[PromptPart]:
    if name == "toolConfig" and isinstance(value, dict):
        name, value = "toolConfig.tools", value.get("tools", ())
    if not isinstance(value, list):
        yield from _element(
            "system" if group == "history" and _is_system(value) else group, name, value, facts
        )
        return
    for number, element in enumerate(value):
        yield from _element(group, f"{name}[{number}]", element, facts)


def _element(group: PromptGroup, place: str, element: Any, facts: CacheFacts) -> Iterator[PromptPart]:
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
    """What was parsed of JSON, without marks and without what is not read letter by letter."""
    kind = type(value)
    if kind is dict:
        # Most values are no objects or lists, and a call for each of them is what took the longest.
        return {
            name: held if type(held) not in _NESTED and name not in _MEDIA else _readable_in(name, held)
            for name, held in value.items()
            if name not in _NOT_READ
        }
    if kind is list:
        return [readable(held) for held in value if not (type(held) is dict and held.keys() == _CACHE_POINT)]
    return value


def _readable_in(name: str, held: Any) -> Any:
    if name in _MEDIA and type(held) is str and len(held) >= _LONG:
        return f"{len(held)} of {hash(held):x}"
    return readable(held)


def weight_of(parts: Sequence[PromptPart]) -> int:
    return sum([len(part.data) for part in parts if part.group != "options"])


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
