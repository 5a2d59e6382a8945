"""How each program compacts a session without a screen."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from scripts.clients.programs import Program, Start, Turn
from scripts.clients.stage import Stage
from scripts.clients.trials import environment_of_turn

SECONDS = 120
MARKS = {
    "claude": "compact_boundary",
    "codex": '"compacted"',
    "gemini": "<state_snapshot>",
    "opencode": '"compaction"',
    "pi": '"compaction"',
    "qwen": "chat_compression",
}
"""What a session that was compacted holds."""


def compact(program: Program, turn: Turn, stage: Stage, file: Callable[[], Path]) -> None:
    """Compact the last session of the folder. `file`: where it is, of a program that keeps files."""
    turn = structs.replace(turn, resume=True)
    match program.name:
        case "claude":
            _run(program, structs.replace(turn, prompt="/compact"), stage)
        case "codex":
            # It compacts by itself, before a turn that finds more tokens than this.
            _run(
                program,
                structs.replace(turn, prompt="Please continue."),
                stage,
                ["-c", "model_auto_compact_token_limit=100"],
            )
        case "gemini":
            _as_gemini_compacts(file())
        case "opencode":
            _by_server(program, turn, stage)
        case "pi":
            _by_rpc(program, turn, stage)
        case "qwen":
            _run(program, structs.replace(turn, prompt="/compress"), stage)
        case _:
            raise RuntimeError(f"how {program.title} compacts is not known")


def _run(program: Program, turn: Turn, stage: Stage, more: list[str] | None = None) -> None:
    start = program.start(turn)
    words = [*start.command[:-1], *(more or ()), start.command[-1]]
    _call(words, turn, start, stage)


def _call(words: list[str], turn: Turn, start: Start, stage: Stage) -> str:
    done = subprocess.run(
        words,
        cwd=turn.work,
        env=environment_of_turn(turn, start, stage),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(words[0]).name}: {(done.stderr or done.stdout)[-400:]}")
    return done.stdout


def _as_gemini_compacts(file: Path) -> None:
    """Written into the file as it records it: without a screen it compacts a session only when that is nearly full."""
    moment = json.loads(file.read_text("utf-8").splitlines()[0])["startTime"]
    summary = "<state_snapshot>The user greeted us with a word.</state_snapshot>"
    said = [("user", summary), ("gemini", "Got it. Thanks for the additional context!")]
    messages = [
        {"id": f"compacted-{number}", "timestamp": moment, "type": kind, "content": [{"text": text}]}
        for number, (kind, text) in enumerate(said)
    ]
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"$set": {"messages": messages}}) + "\n")


def _by_rpc(program: Program, turn: Turn, stage: Stage) -> None:
    """pi compacts what is older than its newest tokens, of which it keeps many by itself."""
    start = program.start(turn)
    (turn.home / "pi" / "settings.json").write_text(
        '{"compaction": {"enabled": true, "keepRecentTokens": 1}}'
    )
    with subprocess.Popen(
        [*start.command[: start.command.index("-p")], "--mode", "rpc"],
        cwd=turn.work,
        env=environment_of_turn(turn, start, stage),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipe")
        process.stdin.write('{"id": "1", "type": "compact"}\n')
        process.stdin.flush()
        answer = next((line for line in process.stdout if '"response"' in line), "")
        process.kill()
    if '"success":true' not in answer.replace(" ", ""):
        raise RuntimeError(f"pi did not compact: {answer[:400]}")


def _by_server(program: Program, turn: Turn, stage: Stage) -> None:
    """opencode has no command for it; its server does."""
    start = program.start(turn)
    binary = start.command[0]
    listed = json.loads(_call([binary, "session", "list", "-n", "1", "--format", "json"], turn, start, stage))
    provider, _, model = json.loads(_call([binary, "debug", "config"], turn, start, stage))[
        "model"
    ].partition("/")
    with subprocess.Popen(
        [binary, "serve", "--port", "0", "--hostname", "127.0.0.1"],
        cwd=turn.work,
        env=environment_of_turn(turn, start, stage),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        try:
            line = next(line for line in process.stdout if "http://" in line)
            url = f"http://{line.split('http://')[1].strip()}/session/{listed[0]['id']}/summarize"
            body = json.dumps({"providerID": provider, "modelID": model}).encode()
            request = urllib.request.Request(url, body, {"content-type": "application/json"})
            urllib.request.urlopen(request, timeout=SECONDS).read()  # noqa: S310 - on this machine
        finally:
            process.terminate()
