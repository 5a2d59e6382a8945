"""However a request is spoilt, the checks come to a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from emulators.anthropic.cases_of_conversations import CONVERSATION_CASES
from emulators.anthropic.cases_of_requests import REQUEST_CASES
from emulators.anthropic.mutation import spoilt
from emulators.anthropic.requests import BINDING, NEW, OLD, context
from emulators.anthropic.test_thinking import loop
from segue.emulators.anthropic.checks import complaints, count_complaints

BODIES = [
    *(case.values[1] for case in REQUEST_CASES + CONVERSATION_CASES if "long" not in str(case.id)),
    loop(),
    loop(BINDING),
]


@pytest.mark.parametrize("model", [OLD, NEW, BINDING])
@pytest.mark.parametrize("check", [complaints, count_complaints])
@given(body=spoilt(BODIES))
def test_a_spoilt_request_is_judged(model: str, check: Any, body: Any) -> None:
    for version in ("2023-06-01", "2026-10-21"):
        for refusal in check(body, context(model, headers={"anthropic-version": version})):
            assert refusal.message
