"""Ids and names in a target's grammar: legal, distinct, the same each time."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.transcript.projection import UNNAMED, IdProjection, NameProjection
from segue.transcript.rules import IdGrammar, NameGrammar

requirement = pytest.mark.requirement
PREFIXED = IdGrammar(prefix="call_", max_length=40)
NINE = IdGrammar("alphanumeric", "", 9, string.ascii_letters + string.digits)
INDEXED = IdGrammar("indexed", "functions.", 128)
GRAMMARS = [PREFIXED, IdGrammar(prefix="toolu_", max_length=64), NINE, INDEXED]
ids = st.text(max_size=30) | st.sampled_from(["", "c0", "c1", "call_c0", "c00000000", "a" * 400, "\ud800"])


def projected(grammar: IdGrammar, *wanted: tuple[str, str]) -> list[str]:
    projection = IdProjection(grammar)
    return [projection.project(call_id, "read", native_id) for call_id, native_id in wanted]


@requirement("REQ-915-016", "REQ-915-049")
@pytest.mark.parametrize("grammar", GRAMMARS)
@given(wanted=st.lists(st.tuples(ids, ids), max_size=20))
def test_projection_is_injective_and_the_same_each_time(
    grammar: IdGrammar, wanted: list[tuple[str, str]]
) -> None:
    made = projected(grammar, *wanted)
    assert len(set(made)) == len(wanted)
    assert made == projected(grammar, *wanted)


@pytest.mark.parametrize(
    ("grammar", "known"),
    [
        (PREFIXED, ["call_c0", "call_d8b84e374b27eee2dfb2cb72", "call_4b0b0be15610a83e0976a770"]),
        (NINE, ["c00000000", "cAA6yMrd4", "ikFbL2mtv"]),
        (INDEXED, ["functions.read:0", "functions.read:1", "functions.read:2"]),
    ],
)
def test_a_later_version_gives_the_ids_that_this_one_gives(grammar: IdGrammar, known: list[str]) -> None:
    """A session that is resumed sends them again: other ones would cost the provider's cache of the prompt."""
    assert projected(grammar, ("c0", ""), ("x" * 90, ""), ("c0", "")) == known


@requirement("REQ-915-010", "REQ-915-015")
@pytest.mark.parametrize("grammar", GRAMMARS)
@given(
    wanted=st.lists(st.tuples(ids, ids), min_size=1, max_size=12),
    more=st.lists(st.tuples(ids, ids), max_size=5),
)
def test_what_comes_later_changes_nothing_before(
    grammar: IdGrammar, wanted: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    assert projected(grammar, *wanted, *more)[: len(wanted)] == projected(grammar, *wanted)


def test_a_minted_id_stays_readable() -> None:
    assert projected(PREFIXED, ("c7", "")) == ["call_c7"]
    assert projected(NINE, ("c7", "")) == ["c00000007"]
    assert projected(INDEXED, ("c7", "")) == ["functions.read:0"]


@requirement("REQ-915-021")
@pytest.mark.parametrize("call_id", ["", "c1234567890", "read", "c01", "a" * 400, "\ud800"])
def test_any_other_id_becomes_nine_letters_and_digits(call_id: str) -> None:
    (made,) = projected(NINE, (call_id, ""))
    assert re.fullmatch("[A-Za-z0-9]{9}", made)


def test_an_id_as_long_as_the_grammar_allows_is_not_cut() -> None:
    short = IdGrammar(prefix="call_", max_length=10)
    assert projected(short, ("abcde", "")) == ["call_abcde"]
    (made,) = projected(short, ("abcdef", ""))
    assert len(made) == 10


@pytest.mark.parametrize(
    ("grammar", "native_id", "kept"),
    [
        (PREFIXED, "anything-legal_1", True),
        (PREFIXED, "x" * 41, False),
        (PREFIXED, "a:b", False),
        (PREFIXED, "", False),
        (NINE, "abcDEF123", True),
        (NINE, "abcDEF12", False),
        (NINE, "abcDEF_23", False),
        (IdGrammar(prefix="toolu_"), "toolu_1", True),
        (INDEXED, "functions.read:7", False),
    ],
)
def test_an_id_of_the_targets_own_is_given_back_if_it_is_legal(
    grammar: IdGrammar, native_id: str, kept: bool
) -> None:
    assert (projected(grammar, ("c0", native_id)) == [native_id]) == kept


@requirement("REQ-915-016")
def test_an_id_that_is_taken_by_a_projection_is_avoided() -> None:
    assert len(set(projected(PREFIXED, ("c9", "call_c1"), ("c1", ""), ("c1", ""), ("x", "call_c1")))) == 4


def test_a_fork_goes_on_independently() -> None:
    for grammar in GRAMMARS:
        one = IdProjection(grammar)
        one.project("a", "read", "")
        two = one.fork()
        assert one.project("a", "read", "") == two.project("a", "read", "")


# Names

LETTER_FIRST = NameGrammar(first=string.ascii_letters)
names = st.text(max_size=80) | st.sampled_from(["", UNNAMED, "read", "read file", "1st", "a" * 90, "\udc80"])


@pytest.mark.parametrize(
    "grammar", [NameGrammar(), LETTER_FIRST, NameGrammar(first=string.ascii_letters + "_")]
)
@given(wanted=st.lists(names, max_size=12, unique=True), offered=st.lists(names, max_size=3, unique=True))
def test_names_are_legal_distinct_and_stable(
    grammar: NameGrammar, wanted: list[str], offered: list[str]
) -> None:
    projection = NameProjection(grammar, tuple(offered))
    made = {name: projection.project(name) for name in (*wanted, *offered)}
    assert len(set(made.values())) == len(made)
    assert all(projection.accepts(one) for one in made.values())
    assert made == {name: projection.project(name) for name in made}
    assert all(made[name] == name for name in offered if projection.accepts(name))
    assert all(projection.keeps(name) == (made[name] == name) for name in made)


def test_a_legal_name_stays_and_another_keeps_what_can_be_read() -> None:
    projection = NameProjection(NameGrammar())
    assert projection.keeps("read")
    assert not projection.keeps("read file")
    assert projection.project("read") == "read"
    assert re.fullmatch("read_file_[0-9a-f]{8}", projection.project("read file"))
    assert projection.project("") == UNNAMED
    assert not projection.keeps(UNNAMED)
    assert projection.project(UNNAMED).startswith(f"{UNNAMED}_")


def test_a_name_that_begins_wrongly_gets_a_legal_beginning() -> None:
    assert NameProjection(LETTER_FIRST).project("1st").startswith("t1st_")
    assert NameProjection(NameGrammar(first=string.ascii_letters + "_")).project("1st").startswith("_1st_")


def test_a_respelled_name_never_takes_one_that_is_in_use() -> None:
    taken = NameProjection(NameGrammar()).project("read file")
    projection = NameProjection(NameGrammar(), ("read file", taken))
    assert projection.project(taken) == taken
    assert projection.project("read file") != taken
    empty = NameProjection(NameGrammar(), (UNNAMED,))
    assert empty.project("") != UNNAMED


def test_a_fork_of_names_goes_on_independently() -> None:
    one = NameProjection(NameGrammar(), ("read file",))
    two = one.fork()
    assert two.names == one.names
    two.project("write")
    assert "write" not in one.names
