"""The small drawings of the pages: marks of models, bars of tokens, dots of states. Inline SVG without style attributes."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.inspector.markup.html import Element, e

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.usage import Usage
    from segue.inspector.record.records import RunState

_STRIP: Final = 15
"""Turns that get a shape each; a conversation with more gets a line per run."""


@final
class ModelFamily(Struct, frozen=True, kw_only=True):
    """Models of one maker, and how they are drawn."""

    name: str
    title: str
    shape: str
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


@final
class ClientName(Struct, frozen=True):
    """A program by its User-Agent."""

    match: str
    title: str


@final
class PageFacts(Struct, frozen=True, kw_only=True):
    """What families.toml says."""

    family: tuple[ModelFamily, ...]
    client: tuple[ClientName, ...]
    short: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def facts() -> PageFacts:
    return msgspec.convert(
        tomllib.loads(files(__package__).joinpath("families.toml").read_text("utf-8")), PageFacts
    )


_OTHER: Final = ModelFamily(name="other", title="Other", shape="frame")


@lru_cache(maxsize=1024)
def family_of(route: str) -> ModelFamily:
    """By provider/model, or the bare name of a model."""
    provider, _, model = route.rpartition("/") if route.count("/") == 1 else ("", "", route)
    known = facts().family
    for family in known:
        if any(fnmatchcase(model.lower(), pattern) for pattern in family.models):
            return family
    return next((family for family in known if provider in family.providers), _OTHER)


@lru_cache(maxsize=1024)
def short_name(route: str) -> str:
    """The model's name without what all of its maker's have."""
    name = route.partition("/")[2] or route
    for pattern in facts().short:
        name = re.sub(pattern, "", name)
    return name or route


@lru_cache(maxsize=1024)
def client_title(user_agent: str) -> str:
    for client in facts().client:
        if fnmatchcase(user_agent, client.match):
            return client.title
    return user_agent.partition("/")[0].partition(" ")[0][:40] or "unknown program"


def _shape(shape: str) -> Element:
    match shape:
        case "circle":
            return e("circle", cx=4, cy=4, r="3.8")
        case "square":
            return e("rect", x=".5", y=".5", width=7, height=7, rx=1)
        case "diamond":
            return e("path", d="M4 0 8 4 4 8 0 4Z")
        case "triangle":
            return e("path", d="M4 .4 8 7.6H0Z")
        case "ring":
            return e("circle", cls="ring", cx=4, cy=4, r="2.7")
        case "bar":
            return e("path", d="M0 2.6h8v2.8H0Z")
        case _:
            return e("rect", cls="ring", x="1.3", y="1.3", width="5.4", height="5.4", rx=1)


def mark(route: str) -> Element:
    family = family_of(route)
    return e(
        "svg",
        _shape(family.shape),
        cls=f"p-{family.name}",
        width=9,
        height=9,
        viewBox="0 0 8 8",
        aria_hidden="true",
    )


def mark_at(route: str, x: float, y: float) -> Element:
    """The same inside a larger drawing."""
    family = family_of(route)
    return e("g", _shape(family.shape), cls=f"p-{family.name}", transform=f"translate({x:.1f} {y:.1f})")


def model(route: str, *, bold: bool = False, whole: bool = False) -> Element:
    """Mark and name. `whole`: the name as its provider spells it."""
    name = (route.partition("/")[2] or route) if whole else short_name(route)
    return e("span", mark(route), name, cls="m b" if bold else "m", title=route)


def wire(name: str) -> Element:
    """The name of a wire, with the mark of the provider whose it is."""
    return e("span", mark(f"{name.partition('_')[0]}/x"), name.replace("_", " "), cls="m")


def family_named(name: str) -> ModelFamily:
    return next((family for family in facts().family if family.name == name), _OTHER)


def family_mark(name: str) -> Element:
    """The mark of its models."""
    providers = family_named(name).providers
    return mark(f"{providers[0]}/x" if providers else "")


def legend() -> Element:
    shown = [e("span", family_mark(family.name), family.title, cls="m") for family in facts().family]
    return e("span", [[one, " "] for one in shown], cls="keys")


def turn_strip(routes: Sequence[str]) -> Element:
    """A shape per turn; over fifteen turns a line per run of one model."""
    runs = [(route, len(list(same))) for route, same in groupby(routes)]
    label = ", then ".join(
        f"{number} turn{'s' if number > 1 else ''} {short_name(route)}" for route, number in runs
    )
    if len(routes) <= _STRIP:
        shapes = [mark_at(route, 11 * place, 1) for place, route in enumerate(routes)]
        width = 11 * max(len(routes), 1)
    else:
        runs = runs[-12:]
        total, width, shapes, at = sum(number for _, number in runs), 150, [], 0.0
        for route, number in runs:
            length = max(14.0, number / total * (width - 14 * len(runs)) + 14)
            line = e("rect", x=at + 9, y=4, width=max(length - 13, 1.0), height=2, rx=1)
            shapes += [mark_at(route, at, 1), e("g", line, cls=f"p-{family_of(route).name}")]
            at += length
        width = int(at) + 1
    return e(
        "svg",
        shapes,
        width=width,
        height=10,
        viewBox=f"0 0 {width} 10",
        role="img",
        aria_label=label or "no turn yet",
    )


def token_parts(usage: Usage) -> tuple[int, int, int, int]:
    """Read from a cache, written to one, fresh, output."""
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    return read, written, max((usage.input_tokens or 0) - read - written, 0), usage.output_tokens or 0


TOKEN_CLASSES: Final = ("t-read", "t-write", "t-fresh", "t-out")


def token_bar(usage: Usage, most: int, width: int = 264, *, output: bool = True) -> Element:
    """`most`: tokens that fill it."""
    parts = token_parts(usage)
    return share_bar(
        [
            (name, number / max(most, 1))
            for name, number in zip(TOKEN_CLASSES, parts if output else parts[:3], strict=False)
        ],
        width,
    )


def share_bar(shares: Sequence[tuple[str, float]], width: int = 64, height: int = 6) -> Element:
    """Parts of a whole, each with its class; what is left is empty."""
    rects, at = [e("rect", cls="f-line", width=width, height=height)], 0.0
    for name, share in shares:
        wide = min(share, 1.0) * width
        if wide > 0:
            rects.append(
                e("rect", cls=name, x=min(at, width - 1.0), y=0, width=max(wide, 1.0), height=height)
            )
            at += wide
    return e("svg", rects, width=width, height=height, viewBox=f"0 0 {width} {height}", aria_hidden="true")


_DOTS: Final[dict[str, Element]] = {
    "streaming": e("circle", cls="f-accent live", cx=5, cy=5, r=4),
    "waiting": e("circle", cls="f-accent live", cx=5, cy=5, r=4),
    "live": e("circle", cls="f-accent live", cx=5, cy=5, r=4),
    "tools run": e(
        "g",
        e("circle", cls="g-accent", stroke_width="1.4", cx=5, cy=5, r="3.3"),
        e("path", cls="f-accent", d="M5 1.7a3.3 3.3 0 0 1 0 6.6Z"),
    ),
    "failed": e("path", cls="g-bad", stroke_width="1.8", d="M2 2 8 8M8 2 2 8"),
    "idle": e("circle", cls="g-q", stroke_width="1.4", cx=5, cy=5, r="3.3"),
    "ok": e("circle", cls="f-good", cx=5, cy=5, r=4),
    "testing": e(
        "g",
        e("circle", cls="g-q", stroke_width="1.4", cx=5, cy=5, r="3.3"),
        e("path", cls="f-warn", d="M5 1.7a3.3 3.3 0 0 0 0 6.6Z"),
    ),
}


def dot(kind: str) -> Element:
    return e(
        "svg", _DOTS.get(kind, _DOTS["idle"]), width=10, height=10, viewBox="0 0 10 10", aria_hidden="true"
    )


def state(kind: RunState | str) -> Element:
    on = kind not in ("idle", "ok")
    return e("span", dot(kind), kind, cls="state on" if on else "state")


def key(name: str, title: str) -> Element:
    square = e("rect", cls=name, width=9, height=9, rx="1.5")
    return e("span", e("svg", square, width=9, height=9, aria_hidden="true"), title, cls="key")


TOKEN_KEYS: Final = (
    ("t-read", "cached, read"),
    ("t-write", "written to the cache"),
    ("t-fresh", "fresh"),
    ("t-out", "output"),
)


def token_keys() -> Element:
    return e("div", [key(*one) for one in TOKEN_KEYS], cls="keys")
