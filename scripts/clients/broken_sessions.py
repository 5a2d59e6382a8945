"""Faults planted in sessions of real programs: `segue doctor --fix` repairs the file, and the program resumes it.

`python -m scripts.clients.broken_sessions [NAME …]`; `make sessions` runs all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, structs

from scripts.clients.__main__ import CACHE
from scripts.clients.fetch import fetch
from scripts.clients.programs import OWN, PROGRAMS, Program, Turn
from scripts.clients.stage import PROVIDER_KEY, Stage, open_stage
from scripts.clients.trials import Outcome, new_turn, take_turn
from segue.cli.clients import Pointer

Rows = list[dict[str, Any]]
Plant = Callable[[Rows], Rows]


def _copy(rows: Rows) -> Rows:
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]


def _blocks(row: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The parts of a message of any program that are of a kind."""
    message: dict[str, Any] = row["message"] if isinstance(row.get("message"), dict) else row
    content = message.get("content", message.get("parts"))
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict) and (part.get("type") == kind or kind in part)]


def _relinked(rows: Rows, removed: dict[str, Any]) -> Rows:
    """Without a row; what followed it follows the one before."""
    kept = [row for row in rows if row is not removed]
    for row in kept:
        for parent, own in (("parentUuid", "uuid"), ("parentId", "id")):
            if row.get(parent) and row[parent] == removed.get(own):
                row[parent] = removed.get(parent)
        if removed.get("uuid") and row.get("leafUuid") == removed["uuid"]:
            row["leafUuid"] = removed.get("parentUuid")
    return kept


def _without_first(kind: str) -> Plant:
    def plant(rows: Rows) -> Rows:
        return _relinked(rows, next(row for row in rows if _blocks(row, kind)))

    return plant


def _renamed(call: str, result: str, key: str, back: str, name: Callable[[list[str]], str]) -> Plant:
    """The last call and its result get another id; `name` makes it of all the ids."""

    def plant(rows: Rows) -> Rows:
        calls = [block.get(call, block) for row in rows for block in _blocks(row, call)]
        ids = [block[key] for block in calls]
        for block in calls:
            if block[key] == ids[-1]:
                block[key] = name(ids)
        for row in rows:
            for block in _blocks(row, result):
                held = block.get(result, block)
                if held[back] == ids[-1]:
                    held[back] = name(ids)
        return rows

    return plant


def _emptied(rows: Rows) -> Rows:
    prompts = [
        row for row in rows if row.get("type") == "user" and isinstance(row["message"]["content"], str)
    ]
    prompts[0]["message"]["content"] = ""
    return rows


def _one_reply_id(rows: Rows) -> Rows:
    replies = [row for row in rows if row.get("type") == "assistant"]
    for row in replies:
        row["message"]["id"] = replies[0]["message"]["id"]
    return rows


def _items(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row.get("type") == "response_item" and row["payload"].get("type") == kind]


def _codex_call_id(name: Callable[[list[str]], str]) -> Plant:
    def plant(rows: Rows) -> Rows:
        ids = [row["payload"]["call_id"] for row in _items(rows, "function_call")]
        for row in (*_items(rows, "function_call"), *_items(rows, "function_call_output")):
            if row["payload"]["call_id"] == ids[-1]:
                row["payload"]["call_id"] = name(ids)
        return rows

    return plant


def _codex_unsealed(rows: Rows) -> Rows:
    for row in _items(rows, "reasoning"):
        row["payload"]["encrypted_content"] = None
    return rows


def _codex_orphan(rows: Rows) -> Rows:
    # Made from an answer, so that the numbers of the lines stay without a gap.
    _items(rows, "function_call")[0]["payload"]["call_id"] = "call_another"
    return rows


def _gemini_open(rows: Rows) -> Rows:
    for row in rows:
        for call in row.get("toolCalls") or ():
            call.pop("result", None)
    return [row for row in rows if not _blocks(row, "functionResponse")]


def _gemini_orphan(rows: Rows) -> Rows:
    for row in rows:
        row.pop("toolCalls", None)
    return rows


def _pi_orphan(rows: Rows) -> Rows:
    for row in rows:
        for block in _blocks(row, "toolCall"):
            block.update({"type": "text", "text": "I looked."})
            break
    return rows


def _pi_illegal(rows: Rows) -> Rows:
    for row in rows:
        for block in _blocks(row, "toolCall"):
            block["id"] = f"functions.{block['id']}:0"
        message = row.get("message") or {}
        if message.get("role") == "toolResult":
            message["toolCallId"] = f"functions.{message['toolCallId']}:0"
    return rows


def _pi_uncounted(rows: Rows) -> Rows:
    for row in rows:
        (row.get("message") or {}).pop("usage", None)
    return rows


_CLAUDE_ID = ("tool_use", "tool_result", "id", "tool_use_id")
_QWEN_ID = ("functionCall", "functionResponse", "id", "id")
PLANTS: dict[str, tuple[str, dict[str, Plant]]] = {
    "claude": (
        "home/claude/.claude/projects/*{work}/*.jsonl",
        {
            "call without a result": _without_first("tool_result"),
            "result without a call": _without_first("tool_use"),
            "illegal call id": _renamed(*_CLAUDE_ID, lambda _: "functions.Bash:0"),
            "repeated call id": _renamed(*_CLAUDE_ID, lambda ids: ids[0]),
            "empty prompt": _emptied,
            "replies with one id": _one_reply_id,
        },
    ),
    "codex": (
        "home/codex/codex/sessions/**/rollout-*.jsonl",
        {
            "repeated call id": _codex_call_id(lambda ids: ids[0]),
            "long call id": _codex_call_id(lambda _: "call_" + "x" * 80),
            "thoughts without a seal": _codex_unsealed,
            "result without a call": _codex_orphan,
        },
    ),
    "gemini": (
        "home/gemini/.gemini/tmp/*{work}*/chats/session-*.jsonl",
        {
            "its own doubled results": lambda rows: rows,
            "calls without results": _gemini_open,
            "results without calls": _gemini_orphan,
        },
    ),
    "pi": (
        "home/pi/pi/sessions/*{work}*/*.jsonl",
        {"result without a call": _pi_orphan, "illegal call ids": _pi_illegal, "no counts": _pi_uncounted},
    ),
    "qwen": (
        "home/qwen/.qwen/projects/*{work}/chats/*.jsonl",
        {
            "repeated call id": _renamed(*_QWEN_ID, lambda ids: ids[0]),
            "result without a call": _without_first("functionCall"),
        },
    ),
}
"""Where each program keeps the sessions of a folder, and what is planted in them."""


class Trial(Struct, frozen=True):
    """One fault in one session."""

    program: str
    fault: str
    found: int
    """What the doctor said before the repair: 1 if it found the fault."""
    after: int
    """And after it: 0 if the file is sound."""
    resumed: Outcome

    @property
    def passed(self) -> bool:
        return self.found == 1 and self.after == 0 and self.resumed.passed


def _session(stage: Stage, pattern: str, work: Path) -> Path:
    found = sorted(
        stage.folder.glob(pattern.replace("{work}", work.name)), key=lambda file: file.stat().st_mtime
    )
    if not found:
        raise RuntimeError(f"no session of {work.name} below {stage.folder}")
    return found[-1]


def _try(program: Program, stage: Stage, number: int, fault: str, plant: Plant, pattern: str) -> Trial:
    provider, name = OWN[program.wire]
    own = Pointer(stage.api.url(provider), PROVIDER_KEY, name)
    turn: Turn = structs.replace(new_turn(program, stage, CACHE, name, f"broken-{number}"), pointer=own)
    stage.model.reset()
    take_turn(program, turn, stage)
    if program.name != "gemini":  # its own sessions are broken after the first turn
        take_turn(program, structs.replace(turn, resume=True), stage)
    file = _session(stage, pattern, turn.work)
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    file.write_text("".join(json.dumps(row) + "\n" for row in plant(_copy(rows))), "utf-8")
    found = stage.exit_code("doctor", str(file))
    fixed = stage.exit_code("doctor", str(file), "--fix")
    after = stage.exit_code("doctor", str(file))
    resumed = take_turn(program, structs.replace(turn, resume=True), stage)
    return Trial(program.name, fault, max(found, fixed), after, resumed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PLANTS))
    parser.add_argument("--keep", metavar="DIR", help="keep logs and homes of the programs there")
    asked = parser.parse_args()
    programs = [
        program
        for program in PROGRAMS
        if program.name in PLANTS and (not asked.names or program.name in asked.names)
    ]
    fetch(programs, CACHE)
    trials: list[Trial] = []
    with (
        TemporaryDirectory(prefix="segue-sessions-") as place,
        open_stage(Path(asked.keep or place)) as stage,
    ):
        for program in programs:
            pattern, plants = PLANTS[program.name]
            for number, (fault, plant) in enumerate(plants.items()):
                trials.append(_try(program, stage, number, fault, plant, pattern))
    for trial in trials:
        state = "resumed" if trial.passed else f"FAILED ({trial.found}, {trial.after}): {trial.resumed.why()}"
        sys.stdout.write(f"{trial.program:<8} {trial.fault:<26} {state}\n")
    passed = sum(trial.passed for trial in trials)
    sys.stdout.write(f"{passed} passed, {len(trials) - passed} failed\n")
    return 0 if passed == len(trials) else 1


if __name__ == "__main__":
    raise SystemExit(main())
