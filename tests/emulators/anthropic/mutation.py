"""Requests spoilt at random places: values swapped for others, lost, or said twice."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

ODDITIES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"type": "text"},
    {"type": []},
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


@st.composite
def spoilt(draw: st.DrawFn, bodies: list[Any]) -> Any:
    body = deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(body))
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["swap", "swap", "lose", "repeat"])):
            case "swap":
                container[key] = deepcopy(draw(st.sampled_from(ODDITIES)))
            case "lose":
                del container[key]
            case _ if isinstance(container, list):
                container.insert(key, deepcopy(container[key]))
            case _:
                container["unheard_of"] = key
    return body
