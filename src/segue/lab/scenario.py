"""A scenario: what a client does in a row, what the model answers, and what has to hold. Scenarios are data (scenarios/*.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply

Wire = Literal["chat", "messages", "responses", "gemini"]
WIRES: tuple[Wire, ...] = ("chat", "messages", "responses", "gemini")
PROVIDERS = ("openai", "anthropic", "gemini")


class Demand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What has to hold after a step, beside what always has to: nothing refused, nothing lost, the reply as the model gave it."""

    status: tuple[int, ...] = ()
    """The request is answered with an error of the client's wire, with one of these statuses."""
    words: str = ""
    """Part of the error's message."""
    seals: bool = False
    """Every signature that this provider issued comes back to it."""
    prefix: bool = False
    """The provider's last request begins as the one before it: its cache holds."""
    cache_marks: bool = False
    """The client's cache marks reach a provider of the same wire."""
    usage: bool = False
    """The client gets the provider's own count."""
    json: bool = False
    """The reply is JSON that fits the schema."""
    broken_off: bool = False
    """The client can see that the reply is not whole; unless it got the whole reply all the same."""
    hung_up: bool = False
    """The provider notices that the client has gone."""
    repeated: bool = False
    """The gateway may ask again, or answer with an error of the client's wire; no other answer is right."""


class ScenarioStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request of the client."""

    model: Literal["first", "second"] = "first"
    say: str = ""
    long: bool = False
    """Two thousand words follow: as much as providers cache."""
    image: bool = False
    document: bool = False
    """With a page of PDF."""
    cached: bool = False
    results: tuple[str, ...] = ()
    """For the calls of the last reply, in order; a call without one stays open."""
    reverse: bool = False
    """Give them in the opposite order."""
    failed: bool = False
    forget: bool = False
    """The client drops its history before, as programs do that write a summary of it."""
    count: bool = False
    """Ask for the number of tokens, not for a reply."""
    rename: str = ""
    """Rewrite the ids of earlier calls before sending: `foreign` ones of another provider, or the `same` for all."""
    schema: Mapping[str, Any] | None = None
    reply: Reply | None = None
    """What the model answers."""
    fault: Fault | None = None
    """What happens to that answer."""
    leave: bool = False
    """The client leaves after the first piece of the reply."""
    demand: Demand = Demand()


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scenario, played at every door, with every provider (or pair of them) behind it, whole and streamed."""

    name: str
    capability: str
    """The column of the report."""
    shows: str
    source: str = ""
    """The thread or document that made it known."""
    claim: str = ""
    """Judged only where a gateway claims this."""
    wires: tuple[Wire, ...] = WIRES
    providers: tuple[str, ...] = PROVIDERS
    two_models: bool = False
    streams: tuple[bool, ...] = (False, True)
    tools: tuple[str, ...] = ()
    thinking: bool = False
    refers: bool = False
    steps: tuple[ScenarioStep, ...] = ()


class ScenarioError(ValueError):
    """A file of scenarios cannot be read."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    scenario: tuple[Scenario, ...]


def read_scenarios(path: Path) -> tuple[Scenario, ...]:
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File).scenario
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{path}: {error}") from error


def shipped_scenarios() -> tuple[Scenario, ...]:
    folder = files("segue.lab") / "scenarios"
    found = sorted(Path(str(file)) for file in folder.iterdir() if file.name.endswith(".toml"))
    return tuple(scenario for file in found for scenario in read_scenarios(file))
