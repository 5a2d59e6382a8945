"""The small changes that `make mutants` makes."""

from __future__ import annotations

import ast

from scripts.mutants.changes import mutants_of, mutated

SOURCE = '''"""A module."""
LIMIT = 3


def clamp(value: int, text: str = "a b") -> int:
    """A docstring."""
    if value > LIMIT and not text:
        return LIMIT - 1
    return value
'''


def test_every_change_is_another_one_and_its_number_makes_it_again() -> None:
    mutants = mutants_of(SOURCE, "clamp.py")
    written = {ast.unparse(mutated(SOURCE, mutant.number)) for mutant in mutants}
    assert len(written) == len(mutants)
    assert ast.unparse(ast.parse(SOURCE)) not in written
    assert [(mutant.kind, mutant.before, mutant.after) for mutant in mutants if mutant.line == 7] == [
        ("boolean", "value > LIMIT and (not text)", "value > LIMIT or not text"),
        ("condition", "value > LIMIT and (not text)", "not (value > LIMIT and (not text))"),
        ("comparison", "value > LIMIT", "value >= LIMIT"),
        ("boolean", "not text", "text"),
    ]


def test_words_for_people_and_types_are_left_alone_and_lines_stay_where_they_are() -> None:
    mutants = mutants_of(SOURCE, "clamp.py")
    assert not any("docstring" in mutant.before or mutant.before == "'a b'" for mutant in mutants)
    for mutant in mutants:
        assert [node.lineno for node in mutated(SOURCE, mutant.number).body] == [1, 2, 5]
    assert [mutant.in_function for mutant in mutants] == [mutant.line > 5 for mutant in mutants]
