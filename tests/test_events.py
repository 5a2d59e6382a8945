"""The events of a chat: each is a public, frozen, typed value that `match` takes apart."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import msgspec
import pytest

import segue
from segue import events
from segue.events import ChatEvent, TextChunk, as_dict

SOURCE = Path(segue.__file__).parent
KINDS: tuple[type[msgspec.Struct], ...] = get_args(ChatEvent)


def test_every_event_is_public_and_every_public_event_is_part_of_the_union() -> None:
    public = [getattr(events, name) for name in events.__all__]
    structs = {one for one in public if isinstance(one, type) and issubclass(one, msgspec.Struct)}
    assert structs == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_is_frozen_and_final_and_has_a_word_and_fields_that_match_takes_apart(
    kind: type[msgspec.Struct],
) -> None:
    assert kind.__struct_config__.frozen
    assert getattr(kind, "__final__", False)
    assert kind.__doc__
    assert kind.__match_args__ == kind.__struct_fields__
    words = [other.__struct_config__.tag for other in KINDS]
    assert words.count(kind.__struct_config__.tag) == 1
    assert kind.type == kind.__struct_config__.tag  # type: ignore[attr-defined]
    assert get_args(get_type_hints(kind)["type"])[0] == Literal[kind.type]  # type: ignore[attr-defined]


def test_a_chat_reports_nothing_that_is_not_an_event() -> None:
    """Everything that is passed to an `emit` in the source is one of them, or was checked to be one."""
    known = {kind.__name__ for kind in KINDS}
    reported: set[str] = set()
    for folder in ("chat", "tools"):
        for module in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text())):
                if isinstance(node, ast.Call) and _name(node.func).lstrip("_") == "emit":
                    reported |= {_name(given.func) for given in node.args if isinstance(given, ast.Call)}
    made_elsewhere = {name for name in reported if name[:1].islower() or name.startswith("_")}
    assert reported - made_elsewhere <= known
    assert {"Finish", "ToolCallStart", "ToolProgress", "ToolCallResult", "Error"} <= reported


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(_, name):
            return name
        case _:
            return ""


def test_an_event_as_json_begins_with_its_word() -> None:
    assert as_dict(TextChunk("Yes.")) == {"type": "text", "text": "Yes."}
