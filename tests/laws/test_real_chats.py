"""Real tool-calling chats, whole and broken as real tools break them, said to every emulated provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from laws.emulated import EMULATED, complaints_about
from laws.real_chats import CHATS, FATES, real_requests
from segue.interop.convert import convert
from segue.providers.models.cards import default_model

pytestmark = pytest.mark.skipif(
    not CHATS.is_dir(), reason="the corpus of recorded chats is not beside the repository"
)

SEALS: Final = ("GEM-23", "ANT-55", "RESP-46")
"""A chat goes back to its own provider with its real signatures, which only the real provider can verify."""


@pytest.mark.requirement("REQ-915-004", "REQ-915-005")
@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
def test_no_real_chat_makes_a_provider_complain(target: str, fate: Callable[[list[Any]], list[Any]]) -> None:
    model = default_model(target)
    refused = {}
    for name, dialect, field, messages in real_requests(one_in=8):
        converted = convert({field: fate(messages)}, source=dialect, to=target, model=model)
        complaints = complaints_about(converted.request, target, model)
        if dialect == target:
            complaints = [complaint for complaint in complaints if not complaint.startswith(SEALS)]
        if complaints:
            refused[name] = complaints[0]
    assert refused == {}
