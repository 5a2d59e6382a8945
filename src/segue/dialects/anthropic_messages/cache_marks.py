"""The marks for the provider's cache in a request: how many it takes, and in which order (ANT-85)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.caches.tool_cache import GivenTools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FIELD = "cache_control"
MOST_MARKS = 4


def without_excess_marks(
    body: Mapping[str, Any], may_be_marked: Sequence[int]
) -> tuple[Mapping[str, Any], list[str]]:
    """The request with no more marks than its provider takes, and where the others stood.

    The last ones stay: each covers all that is before it. A mark that lasts shorter cannot stand before a longer one.
    `may_be_marked`: the indexes of the messages that are looked at.
    """
    marks = list(_marks(body, may_be_marked))
    most = MOST_MARKS - bool(body.get(_FIELD))
    longest = max([index for index, (_, mark) in enumerate(marks) if _lasts_long(mark)], default=0)
    if len(marks) <= most and not longest:
        return body, []
    fitting = [place for index, (place, mark) in enumerate(marks) if index >= longest or _lasts_long(mark)][
        -most:
    ]
    excess = [place for place, _ in marks if place not in fitting]
    for place in excess:
        body = _without(body, place)
    return body, [_path(place) for place in excess]


_Place = tuple[str | int, ...]


def _marks(body: Mapping[str, Any], may_be_marked: Sequence[int]) -> Iterator[tuple[_Place, Any]]:
    """All marks, in the order in which the provider reads them."""
    tools = body.get("tools")
    if type(tools) is GivenTools:
        yield from tools.once("marks", lambda: tuple(_in_list(tools, ("tools",))))
    else:
        yield from _in_list(tools, ("tools",))
    yield from _in_list(body.get("system"), ("system",))
    for index in may_be_marked:
        yield from _in_list(body["messages"][index].get("content"), ("messages", index, "content"))


def _in_list(blocks: Any, place: _Place) -> Iterator[tuple[_Place, Any]]:
    for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if type(block) is not dict:
            continue
        if block.get(_FIELD):
            yield (*place, index), block[_FIELD]
        if type(block.get("content")) is list:
            yield from _in_list(block["content"], (*place, index, "content"))


def _lasts_long(mark: Any) -> bool:
    return isinstance(mark, dict) and mark.get("ttl") == "1h"


def _without(value: Any, place: _Place) -> Any:
    """The same value, of which one mark is gone; what it does not change is shared."""
    if not place:
        return {name: held for name, held in value.items() if name != _FIELD}
    at, *rest = place
    if isinstance(value, list):
        return [_without(held, tuple(rest)) if index == at else held for index, held in enumerate(value)]
    return {**value, at: _without(value[at], tuple(rest))}


def _path(place: _Place) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
