"""Batches over the endpoints of four providers: every request answered once, in order, at the price of a batch."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from typing import Any

import pytest

from batch.worlds import DAY, MODELS, QUICK, RESPONSES_MODEL, World, prompts
from segue.batch import Batch, BatchStatus, read_lines, save_sessions
from segue.conversation.blocks import Text
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.errors import SegueError, UsageError
from segue.providers.config import ProviderConfig
from segue.providers.models.prices import cost_of
from segue.providers.registry import default_registry
from segue.sessions.state import replay
from segue.sessions.stores.memory import MemoryStore

EACH = pytest.mark.parametrize(
    "model", [*(f"{name}/{model}" for name, model in MODELS.items()), RESPONSES_MODEL]
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def run(batch: Batch, **more: Any) -> BatchStatus:
    return asyncio.run(batch.run(pace=QUICK, **more))


def texts(batch: Batch) -> list[str]:
    return [result.text for result in batch.results()]


@EACH
def test_every_request_is_answered_once_in_order_at_the_price_of_a_batch(world: World, model: str) -> None:
    batch = world.batch(prompts(12), model)
    status = run(batch)
    assert (status.succeeded, status.total, status.mode, status.is_complete) == (12, 12, "batch", True)
    assert texts(batch) == [f"answer {n}" for n in range(12)]
    provider, _, name = model.partition("/")
    assert world.created(provider) == 1
    results = list(batch.results())
    for result in results:
        assert result.usage.tier == "batch" and result.attempts == 1
        assert result.cost == cost_of(result.usage, provider, name) is not None
    usual = [cost_of(result.usage.updated(result.usage), provider, name) for result in results]
    assert status.cost == pytest.approx(sum(cost or 0 for cost in usual))


def test_a_batch_costs_half_of_the_usual_price(world: World) -> None:
    from msgspec import structs

    batch = world.batch(prompts(3), "anthropic/claude-sonnet-4-5")
    status = run(batch)
    usual = sum(
        cost_of(structs.replace(result.usage, tier=None), "anthropic", "claude-sonnet-4-5") or 0
        for result in batch.results()
    )
    assert usual > 0 and status.cost == pytest.approx(usual / 2)


@EACH
def test_failures_are_named_and_those_that_pass_are_asked_again(world: World, model: str) -> None:
    world.emulator.batch_faults += [Fault(status=500), Fault(status=400), Fault(status=429)]
    batch = world.batch(prompts(6), model)
    status = run(batch)
    assert (status.succeeded, status.failed) == (5, 1)
    assert world.created(model.partition("/")[0]) == 2  # what passes was handed over again, by itself
    results = list(batch.results())
    assert [result.attempts for result in results] == [2, 1, 2, 1, 1, 1]
    assert results[1].error is not None and results[1].error.remedy == "fix"
    assert texts(batch) == ["answer 0", "", *(f"answer {n}" for n in range(2, 6))]


@EACH
def test_what_expires_is_handed_over_again_until_the_retries_are_used_up(world: World, model: str) -> None:
    world.emulator.batch_rate = 2 / (2 * DAY if model.startswith("gemini") else DAY)

    def a_day_later(status: BatchStatus) -> None:
        world.clock.now += DAY / 2

    batch = world.batch(prompts(6), model, retries=1)
    status = run(batch, on_progress=a_day_later)
    kept = 0 if model.startswith("gemini") else 4  # it has no results of a batch that expired
    assert (status.succeeded, status.expired) == (kept, 6 - kept)
    for result in batch.results():
        if result.status == "expired":
            assert result.attempts == 2 and result.error is not None and result.error.code == "batch_expired"


@EACH
def test_cancelling_keeps_what_is_answered_and_hands_nothing_more_over(world: World, model: str) -> None:
    world.emulator.batch_rate = 1
    batch = world.batch(prompts(5), model)
    status = run(batch, wait=False)
    assert (status.running, status.done) == (5, 0)
    world.clock.now += 2
    asyncio.run(batch.cancel())
    world.clock.now += 1
    status = run(batch)
    kept = 0 if model.startswith("gemini") else 2
    assert (status.succeeded, status.cancelled, status.stopped) == (kept, 5 - kept, True)
    assert world.created(model.partition("/")[0]) == 1
    assert {result.status for result in batch.results()} <= {"succeeded", "cancelled"}


def test_a_step_that_is_tried_again_says_why(world: World) -> None:
    world.emulator.faults.append(Fault(status=503, provider="mistral"))
    seen = list[str]()
    batch = world.batch(prompts(2), "mistral/mistral-small-latest")
    assert run(batch, on_progress=lambda status: seen.append(status.trouble)).succeeded == 2
    assert ({*seen}, seen[-1]) == ({"", "Service unavailable."}, "")


@EACH
def test_cancelling_what_has_ended_meanwhile_keeps_its_results(world: World, model: str) -> None:
    world.emulator.batch_delay = 60
    batch = world.batch(prompts(3), model)
    assert run(batch, wait=False).running == 3
    world.emulator.faults.append(Fault(status=503, path="cancel"))
    with pytest.raises(SegueError):  # nobody knows what became of that
        asyncio.run(batch.cancel())
    world.clock.now += 100
    status = asyncio.run(batch.cancel())
    assert (status.stopped, run(batch).succeeded) == (True, 3)


def test_a_batch_that_is_too_large_for_the_body_goes_to_gemini_as_one_file(world: World) -> None:
    world.emulator.batch_faults += [Fault(status=500), Fault(status=400)]
    long = "word " * 96_000
    lines = "".join(f'{{"prompt": "{long}question {n}"}}\n' for n in range(40))
    batch = world.batch(lines, "gemini/gemini-2.5-flash")
    status = run(batch)
    assert (status.succeeded, status.failed, world.created("gemini")) == (39, 1, 2)
    # 19 MB in pieces of 8. What is asked again is small enough for the body.
    assert sum(entry.path == "/upload/v1beta/files" for entry in world.emulator.log) == 1 + 3
    for n, result in enumerate(batch.results()):
        good = (f"answer {n}", "batch", False)
        assert result.status == "failed" or (result.text, result.usage.tier, result.cost is None) == good


def test_tools_schemas_attachments_and_repairs_are_rendered_as_in_any_request(world: World) -> None:
    (world.directory / "dot.png").write_bytes(b64decode(PIXEL))
    responder: Any = world.emulator.responder
    responder.when("three", Reply(pieces=(Say('{"n": 3}'),)))
    responder.when("weather", Reply(pieces=(Call("get_weather", {"city": "Rome"}),)))
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    tool = {
        "name": "get_weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    dangling = [
        {"role": "user", "content": "question 1"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "user", "content": "question 2"},
    ]
    lines = [
        {"id": "picture", "prompt": "question 7", "attachments": ["dot.png"], "max_tokens": 50},
        {"id": "schema", "prompt": "three", "schema": schema},
        {
            "custom_id": "tools",
            "params": {
                "model": "any",
                "max_tokens": 90,
                "tools": [tool],
                "messages": [{"role": "user", "content": "weather"}],
            },
        },
        {
            "custom_id": "broken",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": dangling},
        },
        {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "question 9"}]},
    ]
    for model in (
        "anthropic/claude-sonnet-4-5",
        "openai/gpt-4.1",
        "gemini/gemini-2.5-flash",
        "mistral/mistral-small-latest",
    ):
        batch = world.batch("\n".join(map(json.dumps, lines)), model)
        status = run(batch)
        results = {result.id: result for result in batch.results()}
        assert status.succeeded == 5, (model, results)
        assert results["picture"].text == "answer 7" and results["5"].text == "answer 9"
        assert results["schema"].output == {"n": 3}
        [call] = results["tools"].calls
        assert (call.name, call.arguments, call.id[:1]) == ("get_weather", {"city": "Rome"}, "c")
        assert results["broken"].text and results["broken"].repairs


def test_a_provider_without_a_batch_endpoint_is_asked_one_by_one_at_its_usual_price(world: World) -> None:
    world.emulator.faults += [Fault(status=429, retry_after=0.01)]
    batch = world.batch(prompts(9), "kimi/kimi-k2.6")
    status = run(batch, concurrency=3)
    assert (status.succeeded, status.mode) == (9, "single")
    assert texts(batch) == [f"answer {n}" for n in range(9)]
    assert all(result.usage.tier is None for result in batch.results())
    assert sorted(result.attempts for result in batch.results()) == [1] * 8 + [2]


def test_a_server_that_turns_out_to_have_no_batch_endpoint_is_asked_one_by_one(world: World) -> None:
    there = ProviderConfig(base_url=f"{world.served.url('kimi')}/v1")
    providers = default_registry({"openai": there}, {"OPENAI_API_KEY": "k"}, keyring=False)
    batch = Batch.create(
        read_lines(prompts(2).encode()), "openai/kimi-k2.6", world.directory, providers=providers
    )
    assert run(batch).mode == "single" and texts(batch) == ["answer 0", "answer 1"]


def test_the_same_requests_to_the_same_model_are_the_same_batch(world: World) -> None:
    run(world.batch(prompts(2), "openai/gpt-4.1"))
    again = world.batch(prompts(2), "openai/gpt-4.1")
    assert again.status().is_complete and run(again).succeeded == 2
    assert world.created("openai") == 1
    run(world.batch(prompts(2), "openai/gpt-4.1", run_number=2))
    assert world.created("openai") == 2


def test_only_one_process_works_on_a_batch_and_all_may_look(world: World) -> None:
    batch = world.batch(prompts(1), "openai/gpt-4.1")
    world.emulator.batch_delay = 10
    other = Batch.open(batch.path, world.providers())
    looked = list[BatchStatus]()

    def meanwhile(status: BatchStatus) -> None:
        if status.running:
            with pytest.raises(UsageError, match="Another process"), other._state.locked():
                pass
            looked.append(other.status())

    run(batch, wait=False, on_progress=meanwhile)
    assert looked and looked[-1].running == 1
    world.clock.now += 11
    assert run(other).succeeded == 1


def test_a_line_that_the_provider_refuses_does_not_take_the_others_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Written by hand: what we hand over has no such line.
    from segue.providers.batches import wire_batch

    write = wire_batch.BatchAccess.write

    def wrong(self: Any, request: Any) -> Any:
        body, reading = write(self, request)
        last = request.conversation.messages[-1].blocks[0]
        bad = isinstance(last, Text) and last.text == "question 1"
        return body.replace(b"gpt-4.1", b"gpt-4o") if bad else body, reading

    monkeypatch.setattr(wire_batch.BatchAccess, "write", wrong)
    batch = world.batch(prompts(3), "openai/gpt-4.1")
    status = run(batch)
    assert (status.succeeded, status.failed) == (2, 1)
    results = list(batch.results())
    assert results[1].error is not None and results[1].error.code == "model_mismatch"
    assert [result.attempts for result in results] == [1, 1, 1]


def test_a_key_that_is_refused_is_reported_and_nothing_is_lost(world: World) -> None:
    world.emulator.keys = frozenset({"another"})
    batch = world.batch(prompts(2), "anthropic/claude-sonnet-4-5")
    with pytest.raises(SegueError) as raised:
        run(batch)
    assert raised.value.remedy == "log_in" and batch.status().waiting == 2
    world.emulator.keys = None
    assert run(batch).succeeded == 2


def test_a_batch_that_its_provider_no_longer_has_is_reported_and_can_be_given_up(world: World) -> None:
    world.emulator.batch_delay = 60
    batch = world.batch(prompts(2), "anthropic/claude-sonnet-4-5")
    run(batch, wait=False)
    world.emulator.memory("anthropic").clear()
    with pytest.raises(SegueError) as raised:
        run(batch)
    assert "To give it up: segue batch cancel" in raised.value.hint and batch.status().running == 2
    asyncio.run(batch.cancel())
    status = run(batch)
    assert (status.cancelled, status.is_complete) == (2, True)


def test_answers_become_sessions_once(world: World) -> None:
    async def save() -> None:
        store = MemoryStore()
        batch = world.batch(prompts(3), "openai/gpt-4.1", source="cities.jsonl")
        await batch.run(pace=QUICK)
        assert await save_sessions(batch, store) == 3
        assert await save_sessions(batch, store) == 0
        for n, result in enumerate(batch.results()):
            state = replay(await store.read(result.session))
            asked, said = state.conversation.messages
            assert (asked.speaker, said.speaker) == ("user", "model")
            assert said.blocks[0] == Text(f"answer {n}")
            assert state.title == f"cities.jsonl {n + 1}"

    asyncio.run(save())


def test_without_a_key_nothing_fails_for_good_where_requests_are_asked_one_by_one(world: World) -> None:
    """The same command with a key continues the batch: what failed could only be sent again as another one."""
    configs = {"kimi": ProviderConfig(base_url=f"{world.served.url('kimi')}/v1")}
    requests = read_lines(prompts(6).encode())
    keyless = default_registry(configs, {}, keyring=False)
    batch = Batch.create(requests, "kimi/kimi-k2.6", world.directory, providers=keyless)
    with pytest.raises(SegueError, match="no key"):
        run(batch)
    assert (batch.status().failed, batch.status().waiting) == (0, 6)
    batch.close()
    again = Batch.create(requests, "kimi/kimi-k2.6", world.directory, providers=world.providers())
    assert run(again).succeeded == 6
