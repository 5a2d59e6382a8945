"""Requests that the emulator refuses, one for each rule: those of its tests, and accepted ones changed in one place.

Every small change is tried against the emulator, which costs nothing, and the first that breaks a rule stands for it.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_CHANGES = 1500
"""Tried for one request."""
FOLDER: Final = Path(__file__).with_name("violations")
"""Data that scripts/broken_requests.py writes from the emulators' own tests."""


@final
class BrokenRequest(Struct, frozen=True):
    """A request that breaks a rule of the emulator, and how."""

    rule: str
    change: str
    body: bytes
    headers: dict[str, str] = {}
    own_model: str = ""
    """The only one that the rule is about, "" if it is about the model that is verified."""


class Violation(Struct, frozen=True, omit_defaults=True):
    """A request that breaks one rule."""

    body: msgspec.Raw
    model: str = ""
    """The one it is about: some rules hold for some models only."""
    headers: dict[str, str] = {}


def known_violations(wire: str) -> dict[str, Violation]:
    """By rule; empty if there is no data for this wire."""
    path = FOLDER / f"{wire}.json"
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Violation])


def changes_of(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The request with one thing changed, and what that is."""
    whole = msgspec.json.decode(body)
    for path in _paths(whole, ()):
        for what, change in _CHANGES:
            changed = deepcopy(whole)
            holder = changed
            for step in path[:-1]:
                holder = holder[step]
            if change(holder, path[-1]):
                yield f"{what} {_written(path)}", msgspec.json.encode(changed)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*path, step)
        yield from _paths(inner, (*path, step))


def _written(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _remove(holder: Any, step: Any) -> bool:
    del holder[step]
    return True


def _repeat(holder: Any, step: Any) -> bool:
    if isinstance(holder, list):
        holder.insert(step, deepcopy(holder[step]))
    return isinstance(holder, list)


def _swap(holder: Any, step: Any) -> bool:
    if not isinstance(holder, list) or step == 0:
        return False
    holder[step - 1], holder[step] = holder[step], holder[step - 1]
    return True


def _replace(new: Any, kind: type) -> Callable[[Any, Any], bool]:
    def change(holder: Any, step: Any) -> bool:
        fits = type(holder[step]) is kind and holder[step] != new
        if fits:
            holder[step] = new
        return fits

    return change


def _add(holder: Any, step: Any) -> bool:
    inner = holder[step]
    if isinstance(inner, dict):
        inner["unknown_field"] = True
    return isinstance(inner, dict)


_CHANGES: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    ("without", _remove),
    ("twice", _repeat),
    ("swapped", _swap),
    ("empty", _replace("", str)),
    ("strange characters in", _replace("a b/c!", str)),
    ("another", _replace("call_x", str)),
    ("negative", _replace(-1, int)),
    ("empty list", _replace([], list)),
    ("an unknown field in", _add),
)
