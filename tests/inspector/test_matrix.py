"""Every page at every width, in light and dark: nothing for axe-core to find, nothing wider than the window. `make browser`."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from inspector.browser import Browser, Tab
from inspector.story import Agent, Session, Stage, inspected_gateway
from inspector.test_approvals import ask_for_all
from segue.sessions.stores.sqlite import SQLiteStore

FOLDER = os.environ.get("SEGUE_BROWSER", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="takes a minute, and axe-core from npm: make browser")
_RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}


def pages(session: Session, agent: Agent) -> dict[str, str]:
    request = session.json(f"/c/{agent.conversation}/requests.json")["requests"][6]["id"]
    here = f"/c/{agent.conversation}"
    return {
        "conversations": "/",
        "no-match": "/?q=nothing",
        "conversation": here,
        "requests": f"{here}/requests",
        "cache": f"{here}/cache",
        "as-another-model": f"{here}/as",
        "side-by-side": f"{here}/as?form=beside",
        "request": f"/r/{request}",
        "diff": f"/r/{request}/diff",
        "errors": "/errors",
        "routes": "/routes",
        "keys": "/keys",
        "log": "/log",
        "audit": "/audit",
        "settings": "/settings",
        "doctor": "/doctor",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360, 320])
def test_every_page_is_readable_for_everybody(
    tab: Tab, stage: Stage, agent: Agent, session: Session, width: int, scheme: str
) -> None:
    tab.size(width)
    tab.scheme(scheme)
    assert findings(tab, stage, pages(session, agent), f"{width}-{scheme}") == []


def test_so_are_the_pages_of_approvals(browser: Browser, tmp_path: Path) -> None:
    asyncio.run(ask_for_all(SQLiteStore(tmp_path / "sessions.db")))
    listed = {"approvals": "/approvals", "approvals-of-a-session": "/approvals?session=trip"}
    with inspected_gateway(sessions=tmp_path, approvals=True) as stage:
        tab = browser.tab()
        tab.open(stage.login_url())
        tab.until("document.querySelector('.empty')")
        for width in (1280, 360, 320):
            for scheme in ("light", "dark"):
                tab.size(width)
                tab.scheme(scheme)
                assert findings(tab, stage, listed, f"{width}-{scheme}") == []
        tab.close()


def findings(tab: Tab, stage: Stage, listed: dict[str, str], form: str) -> list[str]:
    """What is wider than the window, and what axe-core finds; with a picture of each page."""
    axe = (Path(FOLDER) / "node_modules/axe-core/axe.min.js").read_text("utf-8")
    width = int(form.partition("-")[0])
    tab.bypass_policy()
    found: list[str] = []
    for name, path in listed.items():
        tab.open(stage.page + path)
        if width != 320:
            tab.picture(Path(FOLDER) / f"{name}-{form}.png")
        wide = tab.run("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"{name}: {wide} px wide")
        tab.run(axe + "; 0")
        told = json.loads(
            str(tab.run(f"axe.run({json.dumps(_RULES)}).then(r => JSON.stringify(r.violations))"))
        )
        found += [
            f"{name}: {one['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
            for one in told
            for node in one["nodes"][:3]
        ]
    return found
