"""Draws sentences of a grammar (the part of GBNF that we write), so that a law can look at them without an engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import TypeAlias

Draw: TypeAlias = Callable[[Random, int], str]
"""Draws a text; the number is how deep it is in already."""

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:\\.|[^"\\])*")|(?P<class>\[(?:\\.|[^\]\\])*\])|(?P<rule>[A-Za-z][A-Za-z0-9-]*)'
    r"|(?P<times>\{\d+(?:,\d*)?\}|[*+?])|(?P<mark>[()|]))"
)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "]": "]", "[": "["}
_SOME = "abcXYZ019 .,:;-+_/'!?(){}<>é漢🙂\n\t\"\\"
"""Characters that a class which forbids a few may give."""
_DEEP = 12


def sentence(grammar: str, seed: int) -> str:
    rules = dict(line.split(" ::= ", 1) for line in grammar.rstrip("\n").split("\n"))
    drawn: dict[str, Draw] = {}

    def rule(name: str) -> Draw:
        def draw(random: Random, depth: int) -> str:
            if name not in drawn:
                drawn[name] = _Parser(rules[name], rule).alternatives()
            return drawn[name](random, depth + 1)

        return draw

    return rule("root")(Random(seed), 0)


class _Parser:
    def __init__(self, text: str, rule: Callable[[str], Draw]) -> None:
        self._tokens = [
            (kind, found[kind]) for found in _TOKEN.finditer(text) for kind in [str(found.lastgroup)]
        ]
        assert "".join(told for _, told in self._tokens).replace(" ", "") == text.replace(" ", ""), text
        self._rule = rule
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def alternatives(self) -> Draw:
        options = [self._sequence()]
        while self._peek() == ("mark", "|"):
            self._at += 1
            options.append(self._sequence())

        def draw(random: Random, depth: int) -> str:
            # Deep inside, recursion must come to an end: the last alternatives are the plain ones.
            return (options[-1] if depth > _DEEP else random.choice(options))(random, depth)

        return draw

    def _sequence(self) -> Draw:
        items: list[Draw] = []
        while (token := self._peek())[0] and token not in (("mark", "|"), ("mark", ")")):
            self._at += 1
            kind, told = token
            if kind == "text":
                items.append(_literal(told))
            elif kind == "class":
                items.append(_one_of(told))
            elif kind == "rule":
                items.append(self._rule(told))
            elif kind == "times":
                items.append(_repeated(items.pop(), told))
            else:
                items.append(self.alternatives())
                assert self._peek() == ("mark", ")")
                self._at += 1
        return lambda random, depth: "".join(item(random, depth) for item in items)


def _literal(told: str) -> Draw:
    text = _characters(told[1:-1])
    return lambda _random, _depth: "".join(text)


def _one_of(told: str) -> Draw:
    forbids = told.startswith("[^")
    inner = _characters(told[2:-1] if forbids else told[1:-1])
    members: set[str] = set()
    at = 0
    while at < len(inner):
        if at + 2 < len(inner) and inner[at + 1] == "-":
            members |= {chr(code) for code in range(ord(inner[at]), ord(inner[at + 2]) + 1)}
            at += 3
        else:
            members.add(inner[at])
            at += 1
    allowed = sorted(set(_SOME) - members if forbids else members)
    return lambda random, _depth: random.choice(allowed)


def _characters(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            found.append(text[at])
            at += 1
        elif text[at + 1] == "x":
            found.append(chr(int(text[at + 2 : at + 4], 16)))
            at += 4
        else:
            found.append(_ESCAPED[text[at + 1]])
            at += 2
    return found


def _repeated(item: Draw, told: str) -> Draw:
    bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(told)
    if bounds is None:
        least, comma, most = told[1:-1].partition(",")
        bounds = int(least), int(most) if most else None if comma else int(least)
    low, high = bounds

    def draw(random: Random, depth: int) -> str:
        longest = low + (0 if depth > _DEEP else 3)
        count = random.randint(low, longest if high is None else max(low, min(high, longest)))
        # The far end of a range is where mistakes hide.
        if high is not None and depth <= _DEEP and random.random() < 0.2:
            count = high
        return "".join(item(random, depth) for _ in range(count))

    return draw
