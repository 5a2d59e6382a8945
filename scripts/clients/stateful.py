"""SDKs that send only what is new, switched to another model and back: `python -m scripts.clients.stateful [NAME …]`.

Each conversation is held by a program for three turns with a tool: model A, model B, model A. Beside it runs the same program that
sends its whole history. Nothing may be refused, at the gateway's door or at a provider; A gets back the seals of its first turn;
and each reply counts as many tokens of context as that of the program that sends everything. `make stateful` runs all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from scripts.clients.__main__ import CACHE
from scripts.clients.fetch import fetch
from scripts.clients.note_model import PROMPT, WORD
from scripts.clients.programs import PROGRAMS, Program, environment_folder, version_of
from scripts.clients.stage import FAMILIES, INTERACTIONS, Stage, open_stage
from scripts.clients.trials import seals_in
from segue.cli.clients import NO_KEY
from segue.cli.gateway_control import open_gateway

TURN_SECONDS = 60
SEALING = tuple(FAMILIES[name] for name in ("Anthropic", "OpenAI Responses", "Gemini"))
SEALS = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")
NO_SEALS = ("", "skip_thought_signature_validator")
"""What stands in the place of a seal in calls that another model made. Equal thoughts may have equal seals."""
STATE = ("thread", "previous_response_id", "conversation", "previous_interaction_id")
"""The fields of a request that name what a provider holds."""
SWITCHED = 101
"""The status of a WebSocket that was opened."""


class Kind(Struct, frozen=True):
    """A way to keep a conversation, and the one of the same SDK that sends everything."""

    sdk: str
    """The program of `make clients` whose packages it uses."""
    script: str
    name: str
    whole: str
    """It streams if the other one does: a provider divides a reply into other parts then, and gets these back."""
    own: str
    """The route of its own provider, which may hold the state itself."""

    @property
    def title(self) -> str:
        return f"{self.sdk}: {self.name}"


_CLAUDE, _GPT, _GEMINI = SEALING
KINDS = (
    *(
        Kind("anthropic", "turns_anthropic.py", name, "whole", _CLAUDE)
        for name in ("thread", "thread runner", "runner")
    ),
    Kind("anthropic", "turns_anthropic.py", "thread streamed", "whole streamed", _CLAUDE),
    *(Kind("responses", "turns_openai.py", name, "whole", _GPT) for name in ("conversation", "reply before")),
    *(
        Kind("responses", "turns_openai.py", name, "whole streamed", _GPT)
        for name in ("socket", "socket unstored")
    ),
    Kind("google", "turns_google.py", "cache", "whole", _GEMINI),
    Kind("google", "turns_google.py", "interactions", "interactions whole", INTERACTIONS),
)


class Told(Struct, frozen=True):
    """What a program and those behind it said of three turns."""

    faults: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    seals: int
    issued: int
    held: bool
    """Its first model's provider still held the conversation when it came back."""


def pairs(kind: Kind) -> Iterator[tuple[str, str]]:
    """Its own provider and every other family, there and back; and all pairs of those that seal their thoughts."""
    yield from ((kind.own, other) for other in FAMILIES.values() if other != kind.own)
    for first in SEALING:
        yield from ((first, other) for other in SEALING if kind.own != first != other)


class Agent:
    """A program of an SDK: it has one conversation after another."""

    def __init__(self, kind: Kind, stage: Stage) -> None:
        python = environment_folder(CACHE, kind.sdk) / "bin" / "python"
        script = Path(__file__).with_name("agents") / kind.script
        self._process = subprocess.Popen(
            [str(python), str(script)],
            cwd=stage.folder / "work",
            env={**stage.environment, "AGENT_URL": stage.url, "AGENT_KEY": NO_KEY},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **words: str) -> tuple[str, tuple[int, ...]]:
        """The text of its answer, and the tokens of context of each reply."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipe")
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"The program ended: {self._process.wait(TURN_SECONDS)}.")
        told = json.loads(line)
        return told["text"], tuple(told["tokens"])

    def end(self) -> None:
        self._process.communicate(timeout=TURN_SECONDS)


def tell(agent: Agent, keeps: str, routes: tuple[str, str], stage: Stage) -> Told:
    first, other = routes
    stage.model.reset()
    at_providers, at_door = stage.asked, len(_door(stage))
    faults, tokens, issued, last = list[str](), list[tuple[int, ...]](), 0, at_providers
    if refused := agent.ask(model=first, keeps=keeps)[0]:
        faults.append(f"not begun: {refused[:300]}")
    for number, route in enumerate((first, other, first)):
        if number:
            open_gateway(stage.url).switch("last", route)
        last = stage.asked
        text, counted = agent.ask(prompt=PROMPT)
        tokens.append(counted)
        if WORD not in text:
            faults.append(f"turn {number + 1}: {text[:300]}")
        asked = {entry.provider for entry in stage.log(last)}
        if _provider(route) not in asked:
            faults.append(f"turn {number + 1}: {route} was not asked, but {', '.join(asked) or 'nobody'}")
        if not number:
            issued = stage.model.thoughts.total()
    faults += [
        f"{entry.provider} {entry.status} {entry.rule}: {entry.message}"
        for entry in stage.log(at_providers)
        if not _accepted(entry.status)
    ]
    faults += [
        f"door: {line}" for line in _door(stage)[at_door:] if not _accepted(json.loads(line)["status"])
    ]
    # The first request of the turn holds what was sealed before it, or names the state in which its provider holds that.
    back = next((entry.body for entry in stage.log(last) if entry.provider == _provider(first)), None)
    held = isinstance(back, dict) and any(back.get(name) for name in STATE)
    seals = issued if held else sum(seal not in NO_SEALS for seal in seals_in(back, SEALS))
    return Told(tuple(faults), tuple(tokens), seals, issued, held)


def _provider(route: str) -> str:
    return "gemini" if route == INTERACTIONS else route.partition("/")[0]


def _accepted(status: int) -> bool:
    return 200 <= status < 300 or status == SWITCHED


def _door(stage: Stage) -> list[str]:
    return [line for line in (stage.folder / "gateway.log").read_text().splitlines() if line.startswith("{")]


def faults_of(told: Told, whole: Told) -> list[str]:
    faults = [*told.faults, *(f"whole: {fault}" for fault in whole.faults)]
    if told.seals < told.issued:
        faults.append(f"{told.seals} of {told.issued} seals came back")
    if told.tokens != whole.tokens:
        faults.append(f"tokens of context {told.tokens}, sent whole {whole.tokens}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(kind.title for kind in KINDS))
    parser.add_argument("--keep", metavar="DIR", help="keep the gateway's log there")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if not asked.names or {kind.title, kind.sdk} & {*asked.names}]
    programs: dict[str, Program] = {
        program.name: program for program in PROGRAMS if program.name in {kind.sdk for kind in kinds}
    }
    fetch(list(programs.values()), CACHE)
    wrong = 0
    with (
        TemporaryDirectory(prefix="segue-stateful-") as place,
        open_stage(Path(asked.keep or place)) as stage,
    ):
        stage.model.note.write_text(f"{WORD}\n")
        whole: dict[tuple[str, ...], Told] = {}
        for kind in kinds:
            agent = Agent(kind, stage)
            cells = list[Told]()
            good = 0
            for routes in pairs(kind):
                if (key := (kind.script, kind.whole, *routes)) not in whole:
                    whole[key] = tell(agent, kind.whole, routes, stage)
                cells.append(tell(agent, kind.name, routes, stage))
                faults = faults_of(cells[-1], whole[key])
                good += not faults
                for fault in faults:
                    sys.stderr.write(f"{kind.title}  {' → '.join((*routes, routes[0]))}  {fault}\n")
            agent.end()
            wrong += len(cells) - good
            version = version_of(programs[kind.sdk], CACHE)
            sys.stdout.write(f"{kind.title} ({version}): {good} of {len(cells)} journeys, {_sum(cells)}\n")
            sys.stdout.flush()
    return 1 if wrong else 0


def _sum(cells: list[Told]) -> str:
    seals, issued = sum(told.seals for told in cells), sum(told.issued for told in cells)
    tokens = sum(sum(turn) for told in cells for turn in told.tokens)
    held = sum(told.held for told in cells)
    return f"{seals} of {issued} seals back ({held} journeys by the provider's state), {tokens} tokens of context"


if __name__ == "__main__":
    sys.exit(main())
