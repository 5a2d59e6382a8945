"""Thoughts inside the text are told from the answer, wherever the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.openai_chat.stream_state import InlineThoughts


def sorted_out(*pieces: str) -> tuple[str, str]:
    inline = InlineThoughts()
    told = [inline.feed(piece) for piece in pieces] + [inline.close()]
    return "".join(thought for thought, _ in told), "".join(answer for _, answer in told)


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>hm</think>\n\n4", "hm", "4"),
        ("\n<think>\nhm\n</think>4", "\nhm\n", "4"),
        ("4 <think>no</think>", "", "4 <think>no</think>"),
        ("<think>cut off", "cut off", ""),
        ("<thin", "", "<thin"),
        ("<think>a</thin", "a</thin", ""),
        ("<think></think>4", "", "4"),
        ("<think>a</think><think>b", "a", "<think>b"),
        (" ", "", " "),
        ("", "", ""),
    ],
)
def test_only_what_stands_in_tags_at_the_very_start_is_thought(text: str, thought: str, answer: str) -> None:
    assert sorted_out(text) == (thought, answer)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "/think>", "\n", "a", " b"]), max_size=8).map(
        "".join
    ),
    st.lists(st.integers(0, 40), max_size=10),
)
def test_where_the_text_is_cut_makes_no_difference(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    assert sorted_out(*(text[start:end] for start, end in pairwise(edges))) == sorted_out(text)
