"""`segue verify`, against emulators that stand for the real thing: as they are, and with a rule changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from scripts.broken_requests import WIRES, broken_rule

from cli.cli_runs import Cloud, Here, Home
from segue.cli.exit_codes import Exit
from segue.emulators.pytest_plugin import segue_emulator_server
from segue.emulators.server import Served
from segue.providers.adapter import ChatRequest
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.transports.recordings import ReplayingTransport
from segue.verify import verification as verify_run
from segue.verify.broken_requests import changes_of, known_violations
from segue.verify.probes import probes
from segue.verify.verification import Verification, emulated_provider, estimate
from strategies.provider_places import PLACES, Place, provider_at

__all__ = ["segue_emulator_server"]

MODEL = "anthropic/claude-sonnet-4-6"


@pytest.fixture
def cloud(tmp_path: Path, segue_emulator_server: Served) -> Cloud:
    return Cloud(Home(tmp_path), segue_emulator_server)


@pytest.fixture
def asked(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Here:
    return cloud.home.here(monkeypatch)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_every_emulator_accepts_every_probe_as_its_twin_does(
    place: Place, segue_emulator_server: Served
) -> None:
    provider = provider_at(segue_emulator_server, place)
    report = asyncio.run(Verification(provider, place.model).run())
    assert report.complete
    assert [one.provider.verdict for one in report.results] == ["accepted"] * len(probes())
    assert report.findings == ()


def test_the_report_and_the_recording_hold_no_key_and_the_recording_plays_the_same_again(
    cloud: Cloud, asked: Here
) -> None:
    told = asked("verify", MODEL, "--yes", "-o", "report.json", "--record", "exchanges.jsonl")
    assert told.code == Exit.OK, told.err
    assert "21 requests" in told.err
    project = cloud.home.project
    report = json.loads((project / "report.json").read_text())
    assert (report["provider"], report["model"], report["dialect"]) == (
        "anthropic",
        "claude-sonnet-4-6",
        "anthropic",
    )
    assert len(report["results"]) == len(probes())
    key = cloud.home.environment["ANTHROPIC_API_KEY"]
    for file in ("report.json", "exchanges.jsonl"):
        assert key not in (project / file).read_text()
    for probe in probes():
        for message in probe.conversation.messages:
            assert not message.text.strip() or message.text not in (project / "report.json").read_text()
    # The recording is a test: played back, it gives the same verdicts without any network.
    config = ProviderConfig(base_url=cloud.home.environment["ANTHROPIC_BASE_URL"])
    transport = ReplayingTransport(project / "exchanges.jsonl")
    provider = connect("anthropic", config, api_key=key, environ={}, keyring=False, transport=transport)
    again = asyncio.run(Verification(provider, "claude-sonnet-4-6").run())
    assert [one.provider.verdict for one in again.results] == [
        one["provider"]["verdict"] for one in report["results"]
    ]


def test_an_endpoint_with_a_rule_of_its_own_is_found_out(cloud: Cloud, asked: Here) -> None:
    """The emulator that stands for the real one refuses blocks of tools where none are offered; ours does not."""
    cloud.emulator.extra_rules = frozenset({"ANT-44"})
    told = asked("verify", MODEL, "--yes", "-o", "report.json")
    assert told.code == Exit.FINDINGS
    report = json.loads((cloud.home.project / "report.json").read_text())
    differ = [one for one in report["results"] if one["provider"]["verdict"] != one["emulator"]["verdict"]]
    assert [one["probe"] for one in differ] == ["a history with calls, but no tools offered"]
    (found,) = differ
    assert (found["provider"]["verdict"], found["provider"]["status"]) == ("refused", 400)
    assert found["provider"]["words"] in told.out
    assert "the emulator: accepted" in told.out


def test_with_rules_the_endpoint_is_sent_what_the_emulator_refuses(
    segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_run, "MOST_CHANGES", 25)
    provider = provider_at(segue_emulator_server, PLACES[2])
    report = asyncio.run(Verification(provider, PLACES[2].model).run(rules=True))
    assert len(report.rules) >= 5
    assert {one.emulator.verdict for one in report.rules} == {"refused"}
    agreed = [one for one in report.rules if not one.differs]
    assert len(agreed) >= 5
    # The endpoint is less strict than the emulator asked: what only that refuses is reported.
    assert all(one.provider.verdict == "accepted" for one in report.rules if one.differs)


@pytest.mark.parametrize("wire", WIRES)
def test_every_request_that_is_known_to_break_a_rule_still_breaks_that_rule(wire: str) -> None:
    known = known_violations(wire)
    assert known
    assert {rule: broken_rule(wire, violation) for rule, violation in known.items()} == {
        rule: rule for rule in known
    }


@pytest.mark.parametrize(("place", "least"), [(PLACES[0], 34), (PLACES[2], 34), (PLACES[3], 25)], ids=str)
def test_with_rules_every_rule_that_one_request_can_break_is_tried(
    place: Place, least: int, segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_run, "MOST_CHANGES", 1)
    segue_emulator_server.emulator.strict = True
    provider = provider_at(segue_emulator_server, place)
    report = asyncio.run(Verification(provider, place.model).run(rules=True))
    assert len(report.rules) >= least
    assert report.findings == ()
    sent = [entry.rule for entry in segue_emulator_server.emulator.log][-len(report.rules) :]
    assert sent == [one.emulator.rule for one in report.rules]


def test_a_rule_of_another_model_is_not_tried_at_a_provider_that_does_not_have_it(
    segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_run, "MOST_CHANGES", 1)
    config = ProviderConfig(base_url=segue_emulator_server.url("anthropic"))
    provider = connect("anthropic-compatible", config, api_key="k", environ={}, keyring=False)
    report = asyncio.run(Verification(provider, "claude-sonnet-4-6").run(rules=True))
    assert len(report.rules) >= 25
    assert all(" with claude" not in one.probe for one in report.rules)


def test_nothing_is_sent_before_somebody_agrees(cloud: Cloud, asked: Here) -> None:
    told = asked("verify", MODEL)
    assert (told.code, len(cloud.emulator.log)) == (Exit.USAGE, 0)
    assert "about $" in told.err
    assert "--yes" in told.err
    told = asked("verify", MODEL, "--yes", "--max-cost", "0.0001")
    assert (told.code, len(cloud.emulator.log)) == (Exit.TURN_LIMIT, 0)


def test_a_key_that_is_refused_ends_it_at_once(cloud: Cloud, asked: Here) -> None:
    cloud.fail(kind="status", status=401)
    told = asked("verify", MODEL, "--yes")
    assert told.code == Exit.PROVIDERS_FAILED
    assert len(cloud.emulator.log) == 1


def test_the_estimate_counts_every_request() -> None:
    expected = estimate("anthropic", "claude-sonnet-4-6")
    assert expected.requests == len(probes()) + sum(bool(probe.then) for probe in probes())
    assert expected.cost is not None
    assert 0 < expected.cost < 1


def test_each_change_is_one_change_and_the_request_itself_stays_as_it_is() -> None:
    provider, _ = emulated_provider("openai_chat")
    body = provider.preview(ChatRequest(model="gpt-4.1", conversation=probes()[0].conversation)).body
    changed = list(changes_of(body))
    assert len(changed) == len({what for what, _ in changed})
    assert all(json.loads(other) != json.loads(body) for _, other in changed)
