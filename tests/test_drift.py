"""News of SDKs are found word by word, and each that is listed says why it is right to know nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts.drift.__main__ import (
    FOLDERS,
    HERE,
    News,
    files_of,
    news,
    read_listed,
    unnamed_references,
    words_of,
)

TABLE = tomllib.loads((HERE / "known.toml").read_text("utf-8"))
IDENTIFIERS = tomllib.loads((HERE / "identifiers.toml").read_text("utf-8"))


def test_a_word_that_no_code_of_a_wire_names_is_news() -> None:
    words = {"thinking_delta": ["A.type"], "thought_bubble_delta": ["B.type", "C.type"]}
    found = list(news({"anthropic": {"sdk": "anthropic", "version": "1", "words": words}}))
    assert found == [News("anthropic", "thought_bubble_delta", ("B.type", "C.type"))]
    assert str(found[0]) == 'anthropic: "thought_bubble_delta" in B.type, C.type'


def test_a_docstring_and_a_comment_name_nothing(tmp_path: Path) -> None:
    code = tmp_path / "wire.py"
    code.write_text(
        '"""About first."""\nKINDS = ("second|third",)  # fourth\n\nclass Wire:\n    fifth: str = ""\n'
    )
    words = words_of([code])
    assert {"second", "third", "fifth"} <= words
    assert words.isdisjoint({"first", "fourth"})


def test_every_wire_has_its_files() -> None:
    for wire in FOLDERS:
        assert {"dialects", "emulators"} <= {
            path.parts[path.parts.index("segue") + 1] for path in files_of(wire)
        }


def test_every_listed_word_has_a_reason_and_stands_in_one_group() -> None:
    assert all(len(reason) > 40 for reason in read_listed(TABLE).values())
    for wire, groups in TABLE.items():
        words = [word for group in groups.values() for word in group["words"]]
        assert len(words) == len(set(words)), wire


def test_a_listed_word_is_news_as_long_as_it_is_listed() -> None:
    """Who supports one takes it from the list."""
    for wire, groups in TABLE.items():
        known = words_of(files_of(wire))
        assert not known & {word for group in groups.values() for word in group["words"]}, wire


@pytest.mark.parametrize("group", [{"words": ["a"], "reason": " "}, {"words": "a", "reason": "Because."}])
def test_words_without_a_reason_are_refused(group: dict[str, object]) -> None:
    with pytest.raises(SystemExit, match=r"anthropic\.some needs words and a reason"):
        read_listed({"anthropic": {"some": group}})


# What stands for content


def test_a_field_that_no_table_of_references_names_is_found() -> None:
    requests = {
        "Base.previous_response_id at previous_response_id": {"previous_response_id": "held-1"},
        "Base.shelf_id at shelf_id": {"shelf_id": "held-1"},
    }
    found = unnamed_references({"openai_responses": {"references": requests}})
    assert [*found] == ["openai_responses: Base.shelf_id at shelf_id"]


def test_every_reference_of_the_installed_sdks_is_named_or_listed() -> None:
    """`make drift` asks the same of all wires and the newest SDKs."""
    wires = ("anthropic", "openai_chat", "openai_responses")
    program = [sys.executable, str(HERE / "read_references.py"), *wires]
    read = subprocess.run(program, check=True, capture_output=True, timeout=60)  # noqa: S603 - our own
    found = json.loads(read.stdout)
    assert all(len(found[wire]) > 4 for wire in wires)
    assert [*unnamed_references({wire: {"references": found[wire]} for wire in wires})] == []


def test_every_field_that_stands_for_no_content_has_a_reason_and_stands_in_one_group() -> None:
    for wire, groups in IDENTIFIERS.items():
        fields = [field for group in groups.values() for field in group["fields"]]
        assert len(fields) == len(set(fields)), wire
        assert all(len(group["reason"]) > 40 for group in groups.values()), wire
