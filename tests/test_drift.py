"""News of SDKs are found word by word, and each that is listed says why it is right to know nothing of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from scripts.drift.__main__ import FOLDERS, HERE, News, files_of, news, read_listed, words_of

TABLE = tomllib.loads((HERE / "known.toml").read_text("utf-8"))


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
