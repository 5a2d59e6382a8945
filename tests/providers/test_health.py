from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from segue.emulators.faults import Fault
from segue.emulators.server import Served
from segue.errors import OverloadError, QuotaError, RateLimitError, TransportError
from segue.providers import health as health_module
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.health import advice_for, check_health
from segue.providers.hosts.addresses import addresses, find_address
from strategies.provider_places import CLOUDS, KEY, PLACES, Place, provider_at


@pytest.mark.requirement("Scenario: Health Check")
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_provider_that_answers_is_healthy(segue_emulator_server: Served, place: Place) -> None:
    health = asyncio.run(provider_at(segue_emulator_server, place).health())
    assert (health.status, health.provider, health.error) == ("healthy", place.name, "")
    assert health.latency is not None and 0 < health.latency < 10
    assert datetime.now(UTC) - datetime.fromisoformat(health.timestamp) < timedelta(minutes=1)


@pytest.mark.requirement("Scenario: Health Check")
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_provider_that_refuses_is_unhealthy_and_says_what_to_do(
    segue_emulator_server: Served, status: int
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=status))
    health = asyncio.run(provider_at(segue_emulator_server, PLACES[0]).health())
    assert health.status == "unhealthy"
    assert health.error
    assert health.advice
    assert KEY not in repr(health)
    if status == 401:
        assert "segue keys set openai" in health.advice


@pytest.mark.parametrize("name", sorted(addresses().providers))
@pytest.mark.parametrize("mishap", ["refused key", "nobody", "slow", "no API"])
def test_no_mishap_of_any_provider_is_raised(
    name: str, mishap: str, segue_emulator_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = addresses().providers[name]
    place = next((place for place in PLACES if place.name in (address.name, address.dialects[0])), PLACES[0])
    emulator, path = CLOUDS.get(name, (place.name, place.path))
    base_url = segue_emulator_server.url(emulator) + path
    if mishap == "refused key":
        segue_emulator_server.emulator.faults.append(Fault(status=401))
    elif mishap == "slow":
        monkeypatch.setattr(health_module, "LIMIT_SECONDS", 0.05)
        segue_emulator_server.emulator.faults.append(Fault(kind="silence", seconds=1.0))
    elif mishap == "no API":
        segue_emulator_server.emulator.faults.append(Fault(kind="content_type"))
    else:
        base_url = "http://127.0.0.1:9/v1"
    config = ProviderConfig(base_url=base_url, api_key=KEY, workspace="wrkspc_01", project="p")
    health = asyncio.run(connect(name, config, environ={}, keyring=False).health())
    assert health.status == "unhealthy"
    assert health.provider == name
    assert health.error
    assert health.advice
    assert health.latency is not None and health.latency < 5
    assert KEY not in repr(health)
    if mishap == "refused key":
        assert f"segue keys set {name}" in health.advice
    if mishap == "nobody":
        assert "127.0.0.1:9" in health.error


def test_nobody_listening_is_advised_to_start_the_server() -> None:
    health = asyncio.run(connect("ollama", environ={"OLLAMA_HOST": "127.0.0.1:9"}, keyring=False).health())
    assert health.status == "unhealthy"
    assert "http://127.0.0.1:9" in health.error
    assert "ollama serve" in health.advice


def test_a_missing_key_is_told_and_nobody_asked() -> None:
    health = asyncio.run(connect("openai", environ={}, keyring=False).health())
    assert health.status == "unhealthy"
    assert "key" in health.error
    assert "segue keys set openai" in health.advice


def test_a_provider_that_does_not_answer_in_time_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "LIMIT_SECONDS", 0.05)
    health = asyncio.run(check_health("x", lambda: asyncio.sleep(20)))
    assert health.status == "unhealthy"
    assert "0.05 s" in health.error


def test_whatever_is_raised_is_a_report() -> None:
    async def probe() -> None:
        raise ZeroDivisionError(KEY)

    health = asyncio.run(check_health("x", probe))
    assert (health.status, health.error) == ("unhealthy", "ZeroDivisionError")


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (QuotaError("x"), "billing"),
        (RateLimitError("x"), "Wait"),
        (OverloadError("x"), "another"),
        (TransportError("x", hint="Look here."), "Look here."),
    ],
)
def test_advice_follows_from_the_kind_of_error(error: Exception, word: str) -> None:
    assert word in advice_for(error, find_address("openai"))
