"""Pages as values. Whatever is put into one is text, and is escaped; what controls or misleads a reader is made visible.

The same value is written as HTML for a whole page, and as JSON for a part of one that changes while it is looked at: the page's
script builds elements of it, and never reads HTML.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec import Struct

from segue.text.terminal_text import BIDI, INVISIBLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Node: TypeAlias = "Element | str | int | Iterable[Node] | None"
_VOID: Final = frozenset({"meta", "link", "input", "br", "hr", "img"})
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_MISLEADING: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}{INVISIBLE}\ud800-\udfff]")


@final
class Element(Struct, frozen=True):
    """One element."""

    name: str
    attributes: dict[str, str]
    children: tuple[Any, ...] = ()


def e(name: str, /, *children: Node, **attributes: str | int | float | bool | None) -> Element:
    """An element. `_` stands for - in the names of attributes, and `cls` for class. True: without a value; None, False: absent."""
    given = {
        ("class" if key == "cls" else key.rstrip("_").replace("_", "-")): ""
        if value is True
        else _text(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    return Element(name, given, children)


def _text(value: object) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def visible(text: str) -> str:
    """The text with every character that would control or mislead as its number, and without colours of a terminal."""
    if _MISLEADING.search(text) is None:
        return text
    return _MISLEADING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", _ANSI.sub("", text))


def html_of(node: Node) -> str:
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def _write(node: Node, parts: list[str]) -> None:
    if node is None:
        return
    if isinstance(node, str | int):
        parts.append(escape(visible(str(node)), quote=False))
        return
    if not isinstance(node, Element):
        for child in node:
            _write(child, parts)
        return
    attributes = "".join([f' {name}="{escape(visible(value))}"' for name, value in node.attributes.items()])
    parts.append(f"<{node.name}{attributes}>")
    if node.name in _VOID:
        return
    for child in node.children:
        _write(child, parts)
    parts.append(f"</{node.name}>")


def tree_of(node: Node) -> Any:
    """For the page's script: a text, or [name, attributes, children]."""
    if node is None:
        return None
    if isinstance(node, str | int):
        return visible(str(node))
    if not isinstance(node, Element):
        return ["", {}, [tree_of(child) for child in node]]
    return [
        node.name,
        {name: visible(value) for name, value in node.attributes.items()},
        [tree_of(child) for child in node.children],
    ]


def changed(node: Node, change: Callable[[str], str]) -> Node:
    """The same with every text in it changed."""
    if node is None or isinstance(node, int):
        return node
    if isinstance(node, str):
        return change(node)
    if not isinstance(node, Element):
        return [changed(child, change) for child in node]
    attributes = {name: change(value) for name, value in node.attributes.items()}
    return Element(node.name, attributes, tuple(changed(child, change) for child in node.children))


def cls(*names: str) -> str | None:
    """Classes as one attribute; None if there is none."""
    return " ".join([name for name in names if name]) or None
