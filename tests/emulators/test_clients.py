"""Requests that real agents and frameworks sent, as they were captured: each is accepted, or is a known mistake."""

from __future__ import annotations

import pytest

from emulators.agreement import CAPTURES, MISTAKES, capture_verdict, captures
from emulators.recordings import STATE_RULES
from segue.emulators.app import App
from segue.emulators.in_process import ask_now

if not CAPTURES.is_dir():
    pytest.skip("the captured requests are not beside this repository", allow_module_level=True)


@pytest.mark.parametrize("name", captures())
def test_what_a_real_client_sends_is_accepted(name: str) -> None:
    status, rule, message = capture_verdict(name)
    if name in MISTAKES:
        assert rule == MISTAKES[name][0]
    elif rule is None or not STATE_RULES.fullmatch(rule):
        assert (status, message) == (200, None)


@pytest.mark.parametrize("path", ["/anthropic/", "/anthropic/api/hello"])
def test_whether_anybody_is_there_is_answered_without_a_key(path: str) -> None:
    assert ask_now(App(), "HEAD", path, headers={}).status == 200
