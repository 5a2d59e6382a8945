"""Tools that return in many requests: what was worked out for them once is kept with them.

A client offers the same tools with each request, and they are most of its bytes. They are found by these bytes, so that
neither they nor what follows from them is read, checked or written again. The values must never be changed.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, final

import msgspec
from msgspec import Raw, Struct

from segue.cache_budget import CacheBudget
from segue.conversation.tools import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from segue.transcript.repairs import Repair

_T = TypeVar("_T")

FIELD: Final = "tools"
_NAME: Final = b'"tools"'
_BEFORE: Final = re.compile(rb'"tools"\s*:\s*')
_NEAR: Final = 32
_TRIES: Final = 8
"""So many fields of that name are looked at: the schema of a tool, or a call, may have one too."""
LEAST_TOOLS: Final = 2_048
"""Shorter ones are read as fast as they are looked for."""
_HELD: Final = 8
"""What known tools take, as a multiple of their bytes: these, the values read from them, and what is sent to others."""
_MOST_RESULTS: Final = 16


@final
class GivenTools(list[Any]):
    """Tools as they came, and what each wire reads in them."""

    def __init__(self, given: list[Any], text: bytes) -> None:
        super().__init__(given)
        self.text = text
        """Their JSON, as it came."""
        self.read: dict[str, KnownTools] = {}
        self._results: dict[Hashable, Any] = {}
        self.behind = 0
        """How many bytes followed them in the last body: mostly as many as in the next."""

    def count(self, mark: bytes) -> int:
        """How often their JSON holds it."""
        return self.once(mark, lambda: self.text.count(mark))

    def once(self, what: Hashable, work_out: Callable[[], _T]) -> _T:
        """What `work_out` gives for them."""
        return _once(self._results, what, work_out)


@final
class KnownTools(tuple[ToolSpec, ...]):
    """Tools as they were read, and what was worked out for them."""

    results: dict[Hashable, Any]
    settings: dict[Hashable, Any]
    """What was worked out for them together with other settings, of which there may be any number."""

    def __new__(cls, tools: Iterable[ToolSpec]) -> KnownTools:
        made = super().__new__(cls, tools)
        made.results, made.settings = {}, {}
        return made


def read_once(given: Any, wire: str, read: Callable[[], Iterable[ToolSpec]]) -> tuple[ToolSpec, ...]:
    """What `read` gives for these tools of a request."""
    if type(given) is not GivenTools:
        return tuple(read())
    if wire not in given.read:
        given.read[wire] = KnownTools(read())
    return given.read[wire]


def work_out_once(tools: tuple[ToolSpec, ...], what: Hashable, work_out: Callable[[], _T]) -> _T:
    """What `work_out` gives for these tools; `what` names it, and all else that it depends on."""
    return _once(tools.results, what, work_out) if type(tools) is KnownTools else work_out()


def settings_once(tools: KnownTools, what: Hashable, work_out: Callable[[], _T]) -> _T:
    """The same for what depends on other settings too, and costs less than the tools alone."""
    return _once(tools.settings, what, work_out)


def _once(results: dict[Hashable, Any], what: Hashable, work_out: Callable[[], _T]) -> _T:
    found: _T | None = results.get(what)
    if found is None:
        found = work_out()
        if len(results) >= _MOST_RESULTS:
            results.clear()
        results[what] = found
    return found


def encode_once(
    tools: tuple[ToolSpec, ...], what: Hashable, repairs: list[Repair], encode: Callable[[], list[_T]]
) -> list[_T]:
    """What `encode` gives for these tools. What it adds to the repairs is added again each time."""
    if type(tools) is not KnownTools:
        return encode()

    def encode_anew() -> tuple[list[_T], list[Repair]]:
        before = len(repairs)
        encoded = encode()
        noted = repairs[before:]
        del repairs[before:]
        return encoded, noted

    encoded, noted = work_out_once(tools, what, encode_anew)
    repairs += noted
    return encoded


def as_json(tools: tuple[ToolSpec, ...], encoded: Any, encode: Callable[[Any], bytes]) -> bytes:
    """Encoded tools as JSON."""
    if type(tools) is not KnownTools or type(encoded) is not list:
        return encode(encoded)
    # The value is kept along with its bytes: as long as it lives, no other has its identity.
    return work_out_once(tools, ("json", id(encoded)), lambda: (encoded, encode(encoded)))[1]


class _Place(NamedTuple):
    """Where known tools stand in a body."""

    start: int
    end: int
    tools: GivenTools


@final
class ParsedBody(Struct, frozen=True):
    """A body as it was parsed."""

    fields: Any
    text: bytes
    """Its JSON, perhaps with another value instead of the tools. All else is as it came."""
    known: GivenTools | None = None
    """The tools that the text is without."""

    def count(self, mark: bytes) -> int:
        """How often the body holds it."""
        return self.text.count(mark) + (self.known.count(mark) if self.known is not None else 0)


STAND_IN: Final = "=known tools="
"""Takes the place of what need not be parsed, and shows whether that was a field of the body. No client offers this text as
its tools; to one that did, while it had known tools somewhere else, those would be offered. It is written without an escape:
where one is, a name may be hidden (see `holds_mark`)."""
_STAND_IN_JSON: Final = msgspec.json.encode(STAND_IN)


@final
class ToolCache:
    """The tools of the requests read last. It holds `budget` bytes or so; what was not used longest goes first."""

    budget: CacheBudget

    def __init__(self, budget: int, least: int = LEAST_TOOLS) -> None:
        self._least = least
        self.held = 0
        self._known: OrderedDict[bytes, GivenTools] = OrderedDict()
        CacheBudget(budget).share(tools=self)

    def parse(self, body: bytes, start: int = 0, before: bytes = b"") -> ParsedBody:
        """The body from `start` on, with something else `before` it. Tools are parsed only if they are new. Raises what
        `msgspec.json.decode` raises."""
        view = memoryview(body)
        place = self._find(body, start)
        if place is not None:
            text = b"".join((before, view[start : place.start], _STAND_IN_JSON, view[place.end :]))
            fields = msgspec.json.decode(text)
            # Else they stood in something else, or another field of the same name follows.
            if type(fields) is dict and fields.get(FIELD) == STAND_IN:
                fields[FIELD] = place.tools
                return ParsedBody(fields, text, place.tools)
        text = b"".join((before, view[start:])) if start else body
        fields = msgspec.json.decode(text)
        if type(fields) is dict and type(fields.get(FIELD)) is list and fields[FIELD]:
            fields[FIELD] = self._keep(text, fields[FIELD])
        return ParsedBody(fields, text)

    def _find(self, body: bytes, begin: int) -> _Place | None:
        for known, tools in islice(reversed(self._known.items()), _TRIES):
            start = len(body) - tools.behind - len(known)
            if start > begin and body.startswith(known, start):
                at = body.rfind(_NAME, max(begin, start - _NEAR), start)
                before = _BEFORE.match(body, at) if at >= 0 else None
                if before is not None and before.end() == start:
                    return self._found(body, known, start)
        at = begin
        for _ in range(_TRIES if self._known else 0):
            at = body.find(_NAME, at)
            if at < 0:
                return None
            # No text in JSON holds a bare quotation mark, so this is the name of a field, wherever.
            if (before := _BEFORE.match(body, at)) is not None:
                start = before.end()
                for known in reversed(self._known):
                    if body.startswith(known, start):
                        return self._found(body, known, start)
            at += len(_NAME)
        return None

    def _found(self, body: bytes, known: bytes, start: int) -> _Place:
        self._known.move_to_end(known)
        tools, end = self._known[known], start + len(known)
        tools.behind = len(body) - end
        return _Place(start, end, tools)

    def _keep(self, body: bytes, given: list[Any]) -> list[Any]:
        known = _tools_in(body)
        if len(known) < self._least or len(known) * _HELD > self.budget.most:
            return given
        tools = self._known[known] = GivenTools(given, known)
        size = len(known) * _HELD
        self.held += size
        self.budget.fit(size)
        return tools

    def drop_oldest(self) -> None:
        dropped, _ = self._known.popitem(last=False)
        self.held -= len(dropped) * _HELD


def _tools_in(body: bytes) -> bytes:
    """The JSON of the tools in a body."""
    at = len(body)
    for _ in range(_TRIES):
        if (at := body.rfind(_NAME, 0, at)) < 0:
            break
        try:
            # Mostly they stand at the end, and what is before them need not be read again. What remains of a body behind the
            # name of a field of its own is an object; behind that of a field in something else, there is too much of it.
            return bytes(_TOOLS_ALONE.decode(b"".join((b"{", memoryview(body)[at:]))).tools)
        except msgspec.DecodeError:
            continue
    return bytes(_TOOLS_ALONE.decode(body).tools)


class _ToolsAlone(Struct):
    tools: Raw


_TOOLS_ALONE: Final = msgspec.json.Decoder(_ToolsAlone)
