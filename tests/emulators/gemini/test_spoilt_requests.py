"""However a request is spoilt, the checks come to a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from emulators.anthropic.mutation import spoilt
from emulators.gemini.cases import CASES, STRICT_CASES
from emulators.gemini.requests import NEWEST, OLD, context
from emulators.gemini.test_checks import VALID, loop
from segue.emulators.gemini.checks import batch_complaints, complaints, count_complaints, embed_complaints

BODIES = [
    *(case.values[1] for case in CASES + STRICT_CASES if "long" not in str(case.id)),
    *(body for body, _ in VALID.values()),
    loop(),
    {"requests": [{"model": "models/x", "content": {"parts": [{"text": "x"}]}}]},
]


@pytest.mark.parametrize("name", [OLD, NEWEST, "gemini-embedding-001"])
@pytest.mark.parametrize("check", [complaints, count_complaints, embed_complaints, batch_complaints])
@given(body=spoilt(BODIES))
def test_a_spoilt_request_is_judged(name: str, check: Any, body: Any) -> None:
    for platform in ("api", "vertex"):
        for refusal in check(body, context(name, platform=platform)):
            assert refusal.message
