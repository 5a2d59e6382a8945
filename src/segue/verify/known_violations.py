"""Requests that break a rule of an emulator, one per rule and wire: data that is generated from the emulators' own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now

FOLDER: Final = Path(__file__).with_name("violations")
WIRES: Final = {
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
_KEY: Final = {"authorization": "Bearer emulated", "x-api-key": "emulated", "x-goog-api-key": "emulated"}
_VERSION: Final = {"anthropic-version": "2023-06-01"}


class Violation(Struct, frozen=True, omit_defaults=True):
    """A request that breaks one rule."""

    body: msgspec.Raw
    model: str = ""
    """The one it is about: some rules hold for some models only."""
    headers: dict[str, str] = {}


def known_violations(wire: str) -> dict[str, Violation]:
    """By rule; empty if there is no data for this wire."""
    path = FOLDER / f"{wire}.json"
    if not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Violation])


def broken_rule(wire: str, violation: Violation) -> str:
    """The rule by which the emulator of this wire refuses a request, "" if it does not."""
    emulator = Emulator(strict=True)
    path = WIRES[wire].format(model=violation.model)
    headers = {"content-type": "application/json", **_KEY, **_VERSION, **violation.headers}
    ask_now(App(emulator), "POST", path, json=msgspec.json.decode(violation.body), headers=headers)
    return emulator.log[-1].rule or ""
