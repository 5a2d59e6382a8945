"""Requests that real agents and frameworks sent, as they were captured: each is accepted, or is a known mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulators.recordings import HEADERS, STATE_RULES, resealed
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "clients"
if not FOLDER.is_dir():
    pytest.skip("the captured requests are not beside this repository", allow_module_level=True)

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


def headers_of(capture: dict[str, Any]) -> dict[str, str]:
    sent = {name.lower(): value for name, value in capture["headers"].items()}
    # Sentences were replaced in the captures, and some lists of betas with them.
    if " " in sent.get("anthropic-beta", ""):
        sent["anthropic-beta"] = BETAS
    return {**HEADERS, **sent}


@pytest.mark.parametrize("name", sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json")))
def test_what_a_real_client_sends_is_accepted(name: str) -> None:
    capture = msgspec.json.decode((FOLDER / name).read_bytes())
    app = App(Emulator())
    query = f"?{capture['query']}" if capture.get("query") else ""
    answer = ask_now(
        app,
        capture["method"],
        capture["path"] + query,
        json=resealed(capture["body"]),
        headers=headers_of(capture),
    )
    rule = app.emulator.log[-1].rule
    if name in MISTAKES:
        assert rule == MISTAKES[name][0]
    elif rule is None or not STATE_RULES.fullmatch(rule):
        assert (answer.status, app.emulator.log[-1].message) == (200, None)


@pytest.mark.parametrize("path", ["/anthropic/", "/anthropic/api/hello"])
def test_whether_anybody_is_there_is_answered_without_a_key(path: str) -> None:
    assert ask_now(App(), "HEAD", path, headers={}).status == 200
