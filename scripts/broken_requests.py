"""Write src/segue/verify/violations/*.json: for every rule of an emulator the smallest request that breaks it.

The tests of the emulators hold such requests already: their checks are watched while they run, and each request is then
sent to a fresh emulator, whose answer decides which rule it breaks.

python -m scripts.broken_requests --write    write the files
python -m scripts.broken_requests            print which rules are reached
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from scripts.emulator_rules import rules
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now
from segue.verify.broken_requests import FOLDER, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.emulators.rules import Context, Refusal

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 4000
"""Of one request: those about sizes are far larger."""
HEADERS = ("anthropic-beta",)
WIRES = {
    "openai_chat": "/openai/v1/chat/completions",
    "openai_responses": "/openai/v1/responses",
    "anthropic": "/anthropic/v1/messages",
    "gemini": "/gemini/v1beta/models/{model}:generateContent",
    "mistral": "/mistral/v1/chat/completions",
    "kimi": "/kimi/v1/chat/completions",
    "deepseek": "/deepseek/chat/completions",
    "ollama": "/ollama/api/chat",
}
"""Where each wire takes a prompt in the emulators."""
_KEY = {"authorization": "Bearer emulated", "x-api-key": "emulated", "x-goog-api-key": "emulated"}
_VERSION = {"anthropic-version": "2023-06-01"}


class Watcher:
    """Notes every request that the checks of a wire are asked about."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[bytes, Violation]] = {wire: {} for wire in WIRES}

    def watch(self) -> None:
        for wire in WIRES:
            module = import_module(f"segue.emulators.{wire}.checks")
            module.complaints = self._watched(wire, module.complaints)  # type: ignore[attr-defined]

    def _watched(
        self, wire: str, complaints: Callable[..., Iterator[Refusal]]
    ) -> Callable[..., Iterator[Refusal]]:
        def watched(body: object, context: Context, *more: Any) -> Iterator[Refusal]:
            self._note(wire, body, context)
            yield from complaints(body, context, *more)

        return watched

    def _note(self, wire: str, body: object, context: Context) -> None:
        if not isinstance(body, dict):
            return
        try:
            text = msgspec.json.encode(body)
        except (TypeError, ValueError, RecursionError):
            return
        headers = {name: context.headers[name] for name in HEADERS if name in context.headers}
        if len(text) <= MOST_BYTES:
            violation = Violation(model=context.model, body=msgspec.Raw(text), headers=headers)
            self.seen[wire].setdefault(msgspec.json.encode(violation), violation)


def broken_rule(wire: str, violation: Violation) -> str:
    """The rule by which the emulator of this wire refuses a request, "" if it does not."""
    emulator = Emulator(strict=True)
    path = WIRES[wire].format(model=violation.model)
    headers = {"content-type": "application/json", **_KEY, **_VERSION, **violation.headers}
    ask_now(App(emulator), "POST", path, json=msgspec.json.decode(violation.body), headers=headers)
    return emulator.log[-1].rule or ""


def collected() -> dict[str, dict[str, Violation]]:
    """Per wire and rule the smallest request that breaks it."""
    watcher = Watcher()
    watcher.watch()
    os.chdir(ROOT)
    with redirect_stdout(StringIO()):
        pytest.main(
            [
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:randomly",
                "-p",
                "no:xdist",
                "-m",
                "rule",
                "tests/emulators",
            ]
        )
    found: dict[str, dict[str, Violation]] = {wire: {} for wire in WIRES}
    for wire, seen in watcher.seen.items():
        for violation in sorted(seen.values(), key=lambda one: (len(bytes(one.body)), bytes(one.body))):
            rule = broken_rule(wire, violation)
            if rule:
                found[wire].setdefault(rule, violation)
    return found


def rule_ids(wire: str) -> set[str]:
    """The rules that the checks of a wire enforce."""
    return {rule.id for rule in rules() if rule.module.split(".")[2] == wire}


def main(arguments: list[str]) -> int:
    everything = {wire: rule_ids(wire) for wire in WIRES}
    found = collected()
    for wire, violations in found.items():
        missing = sorted(everything[wire] - set(violations))
        print(
            f"{wire}: {len(violations)} of {len(everything[wire] | set(violations))}; not: {', '.join(missing)}"
        )
        if "--write" in arguments:
            text = _written(violations)
            (FOLDER / f"{wire}.json").write_bytes(text)
    return 0


def _written(violations: dict[str, Violation]) -> bytes:
    rows: list[Any] = [
        msgspec.json.encode(rule) + b": " + msgspec.json.encode(violations[rule])
        for rule in sorted(violations)
    ]
    return b"{\n" + b",\n".join(rows) + b"\n}\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
