"""What a model says cannot steer the terminal, however it is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.text.terminal_text import BIDI, Sanitiser, sanitised

nasty = st.text(
    alphabet=st.one_of(
        st.sampled_from("\x1b\x9b\x9d\x90\x9c\x07\x00\r\n\t[]PX^_\\0;m?AJ \x7f\u202e\ud800é"), st.characters()
    )
)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;cm0gLXJm\x1b\\after", "after"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x9b2Jgone", "gone"),
        ("\x9d0;title\x9cafter", "after"),
        ("\x1bPq#0;2;0;0;0\x1b\\after", "after"),
        ("\x1b(Bafter", "after"),
        ("\x1bcafter", "after"),
        ("overwritten\rshown", "overwrittenshown"),
        ("a\x08b\x7fc\x00d", "abcd"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("half \ud83d", "half \ufffd"),
        ("never ends \x1b]0;hidden\nnext line", "never ends \nnext line"),
        ("broken \x1b[12\nnext", "broken \nnext"),
        ("\x1b]0;a\x1b[31mb", "b"),
        ("grüße 👩‍👩‍👧 العربية", "grüße 👩‍👩‍👧 العربية"),
    ],
)
def test_escapes_are_taken_out_and_the_words_stay(said: str, shown: str) -> None:
    assert sanitised(said) == shown


@given(text=nasty, cuts=st.lists(st.integers(0, 200)))
def test_however_the_text_is_cut_the_same_comes_out(text: str, cuts: list[int]) -> None:
    stream = Sanitiser()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    portions = [text[start:end] for start, end in pairwise(places)]
    assert "".join(stream.feed(portion) for portion in portions) == sanitised(text)


@given(text=nasty)
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = sanitised(text)
    assert not any(
        (ord(letter) < 32 and letter not in "\n\t") or 0x7F <= ord(letter) <= 0x9F or letter in BIDI
        for letter in shown
    )
    shown.encode()  # can be written


@given(text=nasty)
def test_what_is_clean_stays_as_it_is(text: str) -> None:
    assert sanitised(sanitised(text)) == sanitised(text)
