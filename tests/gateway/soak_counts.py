"""What the provider of `make soak` reported for each request, against what the gateway's log has for it.

Where the provider reported every try, the gateway counts just that. Where it could not, since a try broke off or its client left, the
log says that it is an estimate, why is known, and it is no more than what was sent and what came can be.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

TOKENS: Final = ("input_tokens", "output_tokens")
_BYTES_PER_TOKEN: Final = 2
"""No estimate has more tokens of what was sent."""
_TOKENS_PER_WORD: Final = 4
"""No estimate has more of what came, whose words are as " word1499"."""
_FIRST_TOKENS: Final = 10
"""Of the number that a reply begins with."""
_FAILED_TRY: Final = re.compile(r"Request (soak-\d+), \S+: .* \((\w+)\)$")


class Asked(Struct):
    """A request as its client sent it."""

    kind: str
    size: int
    """Bytes of its body."""


class Reported(Struct):
    """What the provider saw of a request."""

    tries: int = 0
    """So often it came."""
    refused: int = 0
    """Answered with an error in place of a reply, which costs nothing."""
    whole: int = 0
    """Answered with a whole reply, whose tokens were reported."""


class Logged(Struct):
    """What the gateway's log has of a request."""

    tokens: tuple[int, int]
    estimated: bool
    tries: int
    cause: str
    """Why it did not come to its end; empty if it did."""


class LogReader:
    """The gateway's log in JSON, of which it keeps what it came to and forgets the lines."""

    def __init__(self) -> None:
        self.requests: dict[str, Logged] = {}
        self.faults: list[str] = []
        """Requests that were logged twice, and defects."""
        self.warm = 0
        """Bytes that were kept for next turns when the last request ended, by the gateway's own account."""
        self.held = 0
        """Bytes that all requests held then."""
        self._failed: dict[str, str] = {}

    def feed(self, lines: Iterable[str]) -> None:
        for line in lines:
            if line.startswith("{"):
                self._note(json.loads(line))
            elif (failed := _FAILED_TRY.match(line)) is not None:
                self._failed[failed[1]] = failed[2]
            elif "Traceback" in line or "defect" in line:
                self.faults.append(line)

    def _note(self, line: Mapping[str, Any]) -> None:
        name = line["request_id"]
        if not name.startswith("soak-"):
            return
        self.warm, self.held = sum(line.get("warm_bytes", {}).values()), line.get("held_bytes", 0)
        if name in self.requests:
            self.faults.append(f"{name} was logged twice")
        usage, failed = line.get("usage", {}), self._failed.pop(name, "")
        cause = "client left" if line.get("client_gone") else line.get("error", "") or failed
        self.requests[name] = Logged(
            (usage.get(TOKENS[0]) or 0, usage.get(TOKENS[1]) or 0),
            line.get("usage_estimated", False),
            line.get("attempts", 0),
            cause,
        )


class Comparison(Struct):
    """What the gateway counted, against what it should."""

    wrong: list[str]
    exact: int = 0
    """Requests that were counted as their provider reported them, to the token."""
    estimated: Counter[str] = Counter()
    """The others, by what became of them and why."""
    surplus: dict[str, list[int]] = {}
    """How many tokens, read and written, were counted for those beyond what was reported."""


def compare(
    asked: Mapping[str, Asked],
    reported: Mapping[str, Reported],
    logged: Mapping[str, Logged],
    tokens: Mapping[str, tuple[int, int]],
) -> Comparison:
    """`tokens`: what the provider reports for a whole reply of each kind, which is also the most that one writes."""
    found = Comparison([], 0, Counter(), defaultdict(lambda: [0, 0]))
    for name, request in asked.items():
        served, entry = reported.get(name, Reported()), logged.get(name)
        if entry is None:
            if served.tries or request.kind != "hangs-up":
                found.wrong.append(f"{request.kind} {name}: {served.tries} tries, not in the log")
        elif served.tries > entry.tries:
            found.wrong.append(f"{request.kind} {name}: {served.tries} tries, {entry.tries} logged")
        else:
            _compare_one(found, f"{request.kind} {name}", request, served, entry, tokens[request.kind])
    found.wrong += [f"{name} was logged, and nobody sent it" for name in logged if name not in asked]
    return found


def _compare_one(
    found: Comparison, name: str, request: Asked, served: Reported, entry: Logged, each: tuple[int, int]
) -> None:
    left = entry.cause == "client left"
    # Whether the report of a whole reply was read before its client left, nobody but the gateway knows. And a request that has left
    # for the provider may be lost on its way, if it is broken off before it was read.
    whole = 0 if left and entry.estimated else served.whole
    tries = max(served.tries, 1) if left and entry.estimated else served.tries
    open_tries = tries - served.refused - whole
    least = whole * each[0], whole * each[1]
    if not entry.estimated:
        if open_tries == 0 and entry.tokens == least:
            found.exact += 1
        else:
            found.wrong.append(f"{name}: {served}, {entry.tokens} tokens counted, and no estimate")
        return
    if not entry.cause:
        found.wrong.append(f"{name}: an estimate without a reason")
    written = _FIRST_TOKENS + each[1] * _TOKENS_PER_WORD
    more = entry.tokens[0] - least[0], entry.tokens[1] - least[1]
    if not (
        0 <= more[0] <= open_tries * request.size // _BYTES_PER_TOKEN and 0 <= more[1] <= open_tries * written
    ):
        found.wrong.append(
            f"{name}: {served}, {entry.tokens} tokens counted for {request.size} bytes by an estimate"
        )
    reason = f"{request.kind}, {entry.cause}" + ("" if served.tries else " before its provider had read it")
    found.estimated[reason] += 1
    for place, tokens in enumerate(more):
        found.surplus[reason][place] += tokens
