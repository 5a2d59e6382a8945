"""The suite for providers notices what it is there to notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from segue.conversation.blocks import Origin
from segue.conversation.events import Finished, TextDelta
from segue.providers.adapter import ChatRequest, ProviderAdapter, RequestSent, StreamEvent
from segue.providers.scripted import ScriptedProvider, says
from segue.testing.provider_checks import Report, check_provider


class Careless(ProviderAdapter):
    """A provider with one fault."""

    name = "careless"

    def __init__(self, fault: str) -> None:
        self.fault = fault

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        if self.fault == "raises":
            raise ValueError("out of the blue")
        if self.fault != "silent":
            yield RequestSent(origin=Origin("careless", self.name))
        yield TextDelta(0, "Yes.")
        if self.fault == "never ends":
            return
        yield Finished("stop")
        if self.fault == "ends twice":
            yield Finished("stop")
        if self.fault == "goes on":
            yield TextDelta(0, "And another thing.")


def _report(provider: ProviderAdapter) -> Report:
    return asyncio.run(check_provider(lambda: provider, model="m"))


def test_a_provider_without_a_service_to_steer_is_spared_what_needs_one() -> None:
    report = _report(ScriptedProvider(answer=lambda _: says("Gladly.")))
    assert report.passed, str(report)
    skipped = {outcome.check for outcome in report.outcomes if outcome.skipped}
    assert "closing the stream hangs up" in skipped
    assert "a reply arrives and ends once" not in skipped


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("raises", "out of the blue"),
        ("silent", "RequestSent is not the first event"),
        ("never ends", "0 events end the stream"),
        ("ends twice", "2 events end the stream"),
        ("goes on", "TextDelta comes after the end"),
    ],
)
def test_a_fault_is_noticed_and_named(fault: str, told: str) -> None:
    report = _report(Careless(fault))
    assert not report.passed
    assert told in str(report)


def test_an_abort_that_is_ignored_is_noticed() -> None:
    report = _report(Careless(""))
    broken = [outcome.check for outcome in report.outcomes if outcome.problem]
    assert broken == ["an abort beforehand asks nobody"]
