"""A script for the emulator: replies to queue, rules by prompt, faults to come. JSON or TOML."""

import re
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply
from segue.emulators.model.responder import ScriptedResponder


class PromptRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Answer `reply` whenever the last user text matches `pattern`."""

    pattern: str
    reply: Reply


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do next."""

    replies: tuple[Reply, ...] = ()
    rules: tuple[PromptRule, ...] = ()
    faults: tuple[Fault, ...] = ()
    batch_faults: tuple[Fault, ...] = ()
    batch_delay: float | None = None
    """Seconds before the first request of a batch is answered."""
    batch_rate: float | None = None
    """Requests of a batch that are answered in a second."""


class ScriptError(ValueError):
    """The script cannot be read, or the emulator's responder takes none."""


def read(data: bytes) -> Script:
    try:
        return msgspec.json.decode(data, type=Script)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ScriptError(f"not a script: {error}") from error


def read_file(path: Path) -> Script:
    try:
        if path.suffix == ".toml":
            return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Script)
        return read(path.read_bytes())
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ScriptError(f"{path}: {error}") from error


def perform(script: Script, emulator: Emulator) -> None:
    if script.replies or script.rules:
        responder = emulator.responder
        if not isinstance(responder, ScriptedResponder):
            raise ScriptError("this emulator's responder takes no script: use a ScriptedResponder")
        for rule in script.rules:
            try:
                responder.when(rule.pattern, rule.reply)
            except re.error as error:
                raise ScriptError(f"the pattern {rule.pattern!r} cannot be used: {error}") from error
        responder.add(*script.replies)
    emulator.faults.extend(script.faults)
    emulator.batch_faults.extend(script.batch_faults)
    if script.batch_delay is not None:
        emulator.batch_delay = script.batch_delay
    if script.batch_rate is not None:
        emulator.batch_rate = script.batch_rate
