"""The demo of the gateway: one agent, three changes of its model, nothing refused, all signatures back."""

from __future__ import annotations

from segue.demo.gateway_play import TOUR, play_gateway


def plain(_: str, text: str) -> str:
    return text


def test_an_agent_keeps_its_wire_while_its_model_is_changed_three_times() -> None:
    written: list[str] = []
    result = play_gateway(written.append, plain)
    text = "".join(written)
    assert result.well, text
    assert (result.requests, result.refused, result.home) == (2 * len(TOUR) + 1, 0, "")
    assert text.count("$ segue switch ") == 3
    assert "2 signatures of its own" in text
    for stop in TOUR:
        assert stop.answer in text
