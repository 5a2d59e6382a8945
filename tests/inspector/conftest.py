"""One gateway with its inspector, on which the story was told, and one browser: for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inspector.browser import CHROMIUM, Browser, Tab, chromium
from inspector.story import Agent, Session, Stage, inspected_gateway, tell_story


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with inspected_gateway() as made:
        yield made


@pytest.fixture(scope="module")
def agent(stage: Stage) -> Agent:
    return tell_story(stage)


@pytest.fixture(scope="module")
def session(stage: Stage, agent: Agent) -> Session:
    return Session(stage)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no chromium in PATH: install Debian's package chromium")
    with chromium() as made:
        yield made


@pytest.fixture
def tab(browser: Browser, stage: Stage, agent: Agent) -> Iterator[Tab]:
    """A page of somebody who is logged in. At its end nothing may have been asked elsewhere, and nothing complained about."""
    made = browser.tab()
    made.open(stage.login_url())
    made.until("document.getElementById('rows')")
    yield made
    assert made.faults() == []
    assert made.hosts() <= {stage.url.removeprefix("http://")}
    made.close()
