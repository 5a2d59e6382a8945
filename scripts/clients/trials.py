"""What each client has to do: a tool turn on every provider family, turns that fail or are cancelled, and a journey through
several models and home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scripts.clients.note_model import PROMPT, SLOW_PROMPT, WORD
from scripts.clients.programs import OWN, Program, Start, Turn
from scripts.clients.stage import CLOUD_FAMILIES, CLOUDS, FAMILIES, PROVIDER_KEY, RING, Stage
from segue.cli.clients import NO_KEY, Pointer
from segue.emulators.faults import Fault

TURN_SECONDS = 180
MOST_REQUESTS = 14
"""Of one turn: more is a loop."""
CANCEL_SECONDS = 5.0
"""After the calls were made, so that the tools run by then."""
JOURNEY = (
    "anthropic/claude-sonnet-4-6",
    "gemini/gemini-3.5-flash",
    "openai/gpt-5.5",
    "anthropic/claude-sonnet-4-6",
)
"""The routes of four turns of one session: three that seal their thoughts, and the first again."""
SEALS = ("signature", "thoughtSignature")
"""The fields of a request that hold the seal of a thought."""


FAULTS = (
    Fault(kind="status", status=529, provider="anthropic"),
    Fault(kind="error_mid_stream", provider="anthropic"),
    Fault(kind="cut", at_byte=900, provider="anthropic"),
)


class Outcome(Struct, frozen=True):
    """What one turn came to."""

    answered: bool
    """The answer holds what only the tool could know."""
    requests: int
    refusals: tuple[str, ...] = ()
    seconds: float = 0.0
    output: str = ""
    unasked: str = ""
    """The provider that the turn was meant for, if it got no request."""

    @property
    def passed(self) -> bool:
        held = not self.refusals and not self.unasked
        return self.answered and held and self.requests <= MOST_REQUESTS

    def why(self) -> str:
        if self.passed:
            return "passed"
        reasons = [*self.refusals]
        reasons += [f"{self.requests} requests"] if self.requests > MOST_REQUESTS else []
        reasons += [f"{self.unasked} was not asked"] if self.unasked else []
        reasons += [f"no answer: {self.output[-400:]}"] if not self.answered else []
        return "; ".join(reasons)


def take_turn(program: Program, turn: Turn, stage: Stage, route: str = "") -> Outcome:
    """`route`: whose provider has to answer, if it is known."""
    since, began = stage.asked, time.monotonic()
    process = _started(program, turn, stage)
    try:
        output = process.communicate(timeout=TURN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        _end(process)
        output = f"not ended after {TURN_SECONDS} s: {process.communicate()[0][-300:]!r}"
    asked = stage.log(since)
    refusals = tuple(
        f"{entry.provider} {entry.rule}: {entry.message}" for entry in asked if entry.verdict == "refused"
    )
    meant = emulator_of(route) if route else ""
    outcome = Outcome(
        answered=WORD in output,
        requests=len(asked),
        refusals=refusals,
        seconds=round(time.monotonic() - began, 1),
        output=output,
        unasked="" if meant in {"", *(entry.provider for entry in asked)} else meant,
    )
    sys.stderr.write(f"{turn.work.name}  {turn.pointer.model}  {outcome.why()}  {outcome.seconds} s\n")
    return outcome


def emulator_of(route: str) -> str:
    """The emulator that answers where a route leads."""
    provider = route.partition("/")[0]
    return CLOUDS[provider][0] if provider in CLOUDS else provider


def environment_of_turn(turn: Turn, start: Start, stage: Stage) -> dict[str, str]:
    environment = {**stage.environment, "HOME": str(turn.home), **start.environment}
    return {**environment, "PATH": f"{Path(turn.node).parent}{os.pathsep}{environment['PATH']}"}


def _started(program: Program, turn: Turn, stage: Stage) -> subprocess.Popen[str]:
    stage.model.note, stage.model.knows = turn.work / "note.txt", not program.tools
    start = program.start(turn)
    with (start.input or Path(os.devnull)).open("rb") as given:
        return subprocess.Popen(
            start.command,
            cwd=turn.work,
            env=environment_of_turn(turn, start, stage),
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def _end(process: subprocess.Popen[str]) -> None:
    """As a user does: Ctrl-C, and if that does not help, the end of all its processes."""
    for sign, seconds in ((signal.SIGINT, 10.0), (signal.SIGKILL, 5.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    # Its children may be in the way of the pipe's end.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def interrupt(program: Program, turn: Turn, stage: Stage) -> bool:
    """A turn that ends with Ctrl-C while its tools run. Whether there was such a moment."""
    calls = stage.model.slow_calls
    process = _started(program, structs.replace(turn, prompt=SLOW_PROMPT), stage)
    deadline = time.monotonic() + TURN_SECONDS
    while stage.model.slow_calls == calls and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    began = stage.model.slow_calls > calls
    time.sleep(CANCEL_SECONDS)
    running = process.poll() is None
    _end(process)
    process.communicate()
    return began and running


def cancelled(program: Program, stage: Stage, cache: Path) -> tuple[Outcome, ...]:
    """Two tools run at once and the client is interrupted; then the same session with another model, and with the first.

    The interrupted turn itself has no outcome: only what the providers refuse of what follows counts, and the answers.
    """
    _, name = OWN[program.wire]
    turn = new_turn(program, stage, cache, name, "cancel")
    stage.model.reset()
    if not interrupt(program, turn, stage):
        return (Outcome(answered=False, requests=0, output="no tool ran that could be cancelled"),)
    turn = structs.replace(turn, resume=True)
    outcomes: list[Outcome] = []
    for route in (JOURNEY[1], first_route(program)):
        stage.segue("switch", "last", route)
        outcomes.append(take_turn(program, turn, stage, route))
    return tuple(outcomes)


def new_turn(program: Program, stage: Stage, cache: Path, model: str, name: str) -> Turn:
    """A turn in a folder of its own: no session of another trial is found there."""
    home, work = stage.folder / "home" / program.name, stage.folder / "work" / f"{program.name}-{name}"
    for folder in (home, work):
        folder.mkdir(parents=True, exist_ok=True)
    (work / "note.txt").write_text(f"{WORD}\n")
    return Turn(cache, home, work, Pointer(stage.url, NO_KEY, model), PROMPT, program=program.name)


def tool_turns(program: Program, stage: Stage, cache: Path) -> dict[str, Outcome]:
    """One turn on every provider family; of a cloud's client also on clouds."""
    families = FAMILIES | (CLOUD_FAMILIES if program.cloud else {})
    return {
        family: take_turn(program, new_turn(program, stage, cache, route, f"turn-{number}"), stage, route)
        for number, (family, route) in enumerate(families.items())
    }


def faults(program: Program, stage: Stage, cache: Path) -> dict[str, Outcome]:
    """The first member of a profile fails, before its reply and in the middle of it."""
    _, name = OWN[program.wire]
    outcomes: dict[str, Outcome] = {}
    for number, fault in enumerate(FAULTS):
        stage.api.emulator.faults.append(fault)
        outcome = take_turn(program, new_turn(program, stage, cache, name, f"fault-{number}"), stage)
        # After the first content nobody else may answer: a client that does not ask the same again must see a clear
        # end. One that asks the model to continue gets another answer.
        seen = outcome.output.lower()
        clear = fault.kind != "status" and ("error" in seen or "i read" in seen)
        outcomes[fault.kind] = structs.replace(outcome, answered=outcome.answered or clear)
        stage.api.emulator.faults.clear()
    return outcomes


class Journey(Struct, frozen=True):
    """One session through several models, and at its client's own provider afterwards."""

    turns: tuple[Outcome, ...]
    seals: int
    """Of the first model, in its last request."""
    issued: int
    """In its replies of the first turn."""
    home: Outcome | None = None
    """The same session, sent to the client's own provider without the gateway."""
    alone: Outcome | None = None
    """If that was refused: the second turn of a session that never saw the gateway."""

    @property
    def home_again(self) -> str:
        if self.home is None or self.home.passed:
            return "accepted"
        own_fault = self.alone is not None and not self.alone.passed
        return "refused, as a session without the gateway is" if own_fault else "refused"

    @property
    def passed(self) -> bool:
        turns = all(turn.passed for turn in self.turns)
        return turns and self.seals >= self.issued and self.home_again != "refused"


def journey(program: Program, stage: Stage, cache: Path) -> Journey:
    """The client notices none of it: it asks for the same name all the time."""
    provider, name = OWN[program.wire]
    turn = new_turn(program, stage, cache, name, "journey")
    stage.model.reset()
    outcomes: list[Outcome] = []
    issued = 0
    first = first_route(program)
    emulator = emulator_of(first)
    for number, route in enumerate((first, *JOURNEY[1:-1], first)):
        if number:
            stage.segue("switch", "last", route)
        outcomes.append(take_turn(program, structs.replace(turn, resume=number > 0), stage, route))
        if number == 0:
            issued = stage.model.thoughts.total()
    last = next((entry for entry in reversed(stage.api.emulator.log) if entry.provider == emulator), None)
    seals = _signatures(last.body) if last is not None else 0
    # Signatures belong to an account: without the gateway the client uses the key that the gateway used.
    own = Pointer(stage.api.url(provider), PROVIDER_KEY, name)
    leaving = structs.replace(turn, resume=True, pointer=own)
    left = take_turn(program, leaving, stage)
    alone = None
    if not left.passed:
        fresh = structs.replace(new_turn(program, stage, cache, name, "alone"), pointer=own)
        take_turn(program, fresh, stage)
        alone = take_turn(program, structs.replace(fresh, resume=True), stage)
    return Journey(tuple(outcomes), seals, issued, left, alone)


def round_robin(program: Program, stage: Stage, cache: Path) -> tuple[Outcome, ...]:
    """One session of four turns, each with the next model; or as many new ones, of a client that cannot resume."""
    _, name = OWN[program.wire]
    turn = new_turn(program, stage, cache, name, "ring")
    return tuple(
        take_turn(program, structs.replace(turn, resume=program.resumes and number > 0), stage)
        for number in range(len(RING) + 1)
    )


def profile_routes(profile: str) -> dict[str, str]:
    """Every client's own names lead to the profile."""
    return dict.fromkeys(_own_names(), profile)


def first_routes(program: Program) -> dict[str, str]:
    """Every client's own names lead to the first route of the journey."""
    return dict.fromkeys(_own_names(), first_route(program))


def first_route(program: Program) -> str:
    """Where the journey begins and ends. A cloud opens no seals but its own, so the session of its client begins there, if
    its wire has any."""
    return (
        f"{program.cloud}/{OWN[program.wire][1]}" if program.cloud and program.wire != "azure" else JOURNEY[0]
    )


def _own_names() -> list[str]:
    """Some clients ask for other versions by themselves."""
    own = [name for _, name in OWN.values()]
    return [*own, *(f"{name.partition('-')[0]}-*" for name in own)]


def _signatures(body: Any) -> int:
    """Distinct seals of thoughts in a request."""
    return len(set(seals_in(body)) - {""})


def seals_in(value: Any, names: Collection[str] = SEALS) -> Iterator[str]:
    """What stands under these names, at any depth."""
    if isinstance(value, dict):
        for name, held in value.items():
            if name in names and isinstance(held, str):
                yield held
            else:
                yield from seals_in(held, names)
    elif isinstance(value, list):
        for held in value:
            yield from seals_in(held, names)
