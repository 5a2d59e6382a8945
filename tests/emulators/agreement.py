"""How often the emulators agree with recorded traffic and with captured requests: `make recordings` prints the table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from emulators.recordings import (
    HEADERS,
    STATE_RULES,
    STRUCTURAL,
    Recording,
    judged,
    kinds,
    mismatches,
    plain,
    recordings,
    resealed,
)
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now

CAPTURES = Path(__file__).parents[3] / "shared" / "corpus" / "clients"
MISTAKES = {
    "gemini/010.json": ("GEM-04", "resuming writes a result twice"),
    "pi/011.json": ("DSK-04", "DeepSeek knows no role `developer`, and says so"),
    "continue/005.json": ("MIS-08", "Mistral refuses `stream_options`, and says so"),
    "qwen/002.json": ("MIS-08", "Mistral refuses `stream_options`, and says so"),
    "qwen24/002.json": ("CHAT-40", "this model takes functions on Chat only without reasoning"),
}
"""What the real APIs refuse too: the rule and why."""
BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
    "thinking-token-count-2026-05-13,prompt-caching-scope-2026-01-05,mid-conversation-system-2026-04-07,"
    "effort-2025-11-24,advanced-tool-use-2025-11-20,context-1m-2025-08-07,per-turn-control-2026-07-01"
)
"""What the same client sends where its list was kept."""


def agrees(recording: Recording) -> bool:
    if recording.status < 300:
        status, _, rule = judged(recording, strict=False)
        return status < 300 or bool(rule and STATE_RULES.fullmatch(rule))
    status, ours, _ = judged(recording, strict=True)
    same_kind = status == recording.status and kinds(ours) == kinds(recording.answer)
    return same_kind and plain(ours) == plain(recording.answer)


def chosen(*statuses: int) -> list[Recording]:
    """Without those about keys: any key is a good one here."""
    found = [recording for recording in recordings() if recording.status in statuses]
    return [recording for recording in found if "API key" not in str(recording.answer)]


def captures() -> list[str]:
    return sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.json"))


def capture_verdict(name: str) -> tuple[int, str | None, str | None]:
    """Status, rule and message for the request that a real client sent."""
    capture = msgspec.json.decode((CAPTURES / name).read_bytes())
    app = App(Emulator())
    query = f"?{capture['query']}" if capture.get("query") else ""
    answer = ask_now(
        app,
        capture["method"],
        capture["path"] + query,
        json=resealed(capture["body"]),
        headers=_headers_of(capture),
    )
    entry = app.emulator.log[-1]
    return answer.status, entry.rule, entry.message


def _headers_of(capture: dict[str, Any]) -> dict[str, str]:
    sent = {name.lower(): value for name, value in capture["headers"].items()}
    # Sentences were replaced in the captures, and some lists of betas with them.
    if " " in sent.get("anthropic-beta", ""):
        sent["anthropic-beta"] = BETAS
    return {**HEADERS, **sent}


def _report() -> Iterator[str]:
    """Known mistakes are those of recordings (mismatches.toml) and of clients, each with its reason."""
    seen: Counter[tuple[str, str]] = Counter()
    good: Counter[tuple[str, str]] = Counter()
    listed: Counter[tuple[str, str]] = Counter()
    for kind, statuses in (("accepted", (200, 201)), ("refused", STRUCTURAL)):
        for recording in chosen(*statuses):
            same = agrees(recording)
            for place in (recording.provider, "all"):
                seen[kind, place] += 1
                good[kind, place] += same
                listed[kind, place] += not same and recording.name in mismatches()
            if not same and recording.name not in mismatches():
                yield f"disagrees: {recording.name} {judged(recording, strict=kind == 'refused')}"
    for name in captures():
        status, rule, message = capture_verdict(name)
        mistake = name in MISTAKES and rule == MISTAKES[name][0]
        same = status == 200 or bool(rule and STATE_RULES.fullmatch(rule))
        for place in (name.partition("/")[0], "all"):
            seen["client", place] += 1
            good["client", place] += same
            listed["client", place] += mistake
        if not same and not mistake:
            yield f"refused: {name} {rule} {message}"
    yield "| traffic | of | requests | known mistakes | same verdict | |\n|---|---|---|---|---|---|"
    for (kind, place), count in sorted(seen.items(), key=lambda row: (row[0][0], row[0][1] == "all", row[0])):
        wrong, right = listed[kind, place], good[kind, place]
        share = 100 * right / max(count - wrong, 1)
        yield f"| {kind} | {place} | {count} | {wrong} | {right} | {share:.2f} % |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in _report())
