"""Every page at every width, in light and dark: nothing for axe-core to find, nothing wider than the window. `make browser`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from inspector.browser import Tab
from inspector.story import Agent, Session, Stage

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
    axe = (Path(FOLDER) / "node_modules/axe-core/axe.min.js").read_text("utf-8")
    tab.bypass_policy()
    tab.size(width)
    tab.scheme(scheme)
    found: list[str] = []
    for name, path in pages(session, agent).items():
        tab.open(stage.page + path)
        if width != 320:
            tab.picture(Path(FOLDER) / f"{name}-{width}-{scheme}.png")
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
    assert found == []
