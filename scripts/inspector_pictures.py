"""Draw the pictures of the inspector in docs: the story of the tests, told to a gateway with emulators, in Chromium.

The fonts are those of this machine. Needs Chromium in PATH.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(_ROOT / "tests"))

from inspector.browser import Tab, chromium  # noqa: E402 - behind its path
from inspector.story import (  # noqa: E402 - behind its path
    HEADERS,
    Agent,
    Session,
    Stage,
    inspected_gateway,
    tell_story,
)

_FOLDER: Final = _ROOT / "docs" / "pictures"
_OTHERS: Final = (
    (
        "codex_cli_rs/0.60",
        "gpt",
        "~/src/etl",
        ("Port the CSV importer to polars.", "Now the tests.", "And the types."),
    ),
    ("opencode/1.0", "kimi", "~/src/shop", ("Why is checkout slow on mobile?", "Fix the largest cause.")),
    ("GeminiCLI/0.9", "flash", "~/src/etl", ("Review the migration to PostgreSQL 18.",)),
)


def main() -> None:
    with chromium() as browser, inspected_gateway() as stage:
        for client, model, folder, turns in _OTHERS:
            other = Agent(stage.url, {**HEADERS, "user-agent": client}, model=model)
            other.system = f"Working directory: {folder}\n" + "Be careful. " * 300
            for text in turns:
                other.turn(text)
        agent = tell_story(stage)
        requests = Session(stage).json(f"/c/{agent.conversation}/requests.json")["requests"]
        tab = browser.tab()
        tab.open(stage.login_url())
        tab.until("document.getElementById('rows')")
        here = f"/c/{agent.conversation}"
        _draw(tab, stage, here, "inspector", height=860)
        _draw(tab, stage, here, "inspector-conversation")
        _draw(tab, stage, f"{here}/cache", "inspector-cache")
        _draw(tab, stage, f"{here}/as", "inspector-as-another-model", scheme="dark")
        _draw(tab, stage, f"/r/{requests[6]['id']}", "inspector-request")
        _draw(tab, stage, "/", "inspector-conversations")
        _draw(tab, stage, "/", "inspector-conversations-narrow-dark", width=360, scheme="dark")
        tab.close()


def _draw(
    tab: Tab, stage: Stage, path: str, name: str, *, width: int = 1280, height: int = 0, scheme: str = "light"
) -> None:
    """`height`: only so much of its top; 0 means all of it."""
    tab.size(width, height or 900)
    tab.scheme(scheme)
    tab.open(stage.page + path)
    tab.until("document.fonts.status === 'loaded'")
    tab.picture(_FOLDER / f"{name}.png", whole=not height)


if __name__ == "__main__":
    main()
