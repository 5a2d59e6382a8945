"""Cache points in a request: blocks of their own, each behind what it covers (BDR-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.converse.rules import MOST_CACHE_POINTS
from segue.dialects.converse.wire import CACHE_POINT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Place = tuple[str | int, ...]


def is_point(entry: Any) -> bool:
    return isinstance(entry, dict) and CACHE_POINT in entry


def without_points(entries: list[Any]) -> list[Any]:
    return [entry for entry in entries if not is_point(entry)]


def without_misplaced_points(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The request without cache points that its provider refuses wherever they stand so, and where those stood: with nothing
    to cover, behind a thought or another point, or too many. The last ones stay: each covers all before it."""
    points = list(_points(body))
    fitting = [place for place, covers in points if covers][-MOST_CACHE_POINTS:]
    excess = [place for place, _ in points if place not in fitting]
    for place in reversed(excess):
        body = _without(body, place)
    return body, [_path(place) for place in excess]


def _points(body: Mapping[str, Any]) -> Iterator[tuple[_Place, bool]]:
    """All points in the order in which the provider reads them, and whether each covers something."""
    config = body.get("toolConfig")
    tools = config.get("tools") if isinstance(config, dict) else None
    yield from _in_list(tools, ("toolConfig", "tools"))
    yield from _in_list(body.get("system"), ("system",))
    messages = body.get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if isinstance(message, dict):
            yield from _in_list(message.get("content"), ("messages", index, "content"))


def _in_list(entries: Any, place: _Place) -> Iterator[tuple[_Place, bool]]:
    before: Any = None
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if is_point(entry):
            covers = isinstance(before, dict) and not before.keys() & {CACHE_POINT, "reasoningContent"}
            yield (*place, index), covers and isinstance(entry[CACHE_POINT], dict)
        before = entry


def _without(value: Any, place: _Place) -> Any:
    """The same value, of which one entry is gone; what it does not change is shared."""
    at, *rest = place
    if not rest:
        return [held for index, held in enumerate(value) if index != at]
    if isinstance(value, list):
        return [_without(held, tuple(rest)) if index == at else held for index, held in enumerate(value)]
    return {**value, at: _without(value[at], tuple(rest))}


def _path(place: _Place) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
