"""A batch that is killed at random moments and run again: every request is answered once, and no part is handed over twice."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from batch.worlds import CREATED, DAY, MODELS, QUICK, World, emulated, prompts
from segue.batch import Batch
from segue.batch.state_file import StateFile
from segue.emulators.faults import Fault
from segue.providers.models.prices import cost_of

TESTS = Path(__file__).parent.parent
KILLS = int(os.environ.get("SEGUE_BATCH_KILLS", "4"))
KILLS_OF_A_RUN = 5
COUNT = 30


def start(world: World, model: str, run: int = 1) -> subprocess.Popen[str]:
    words = [
        sys.executable,
        "-m",
        "batch.killed_run",
        str(world.directory),
        world.served.base_url,
        model,
        str(COUNT),
        str(run),
    ]
    return subprocess.Popen(words, cwd=TESTS, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words


def handed_over(world: World, provider: str) -> Counter[str]:
    """How often each question is in a batch that was created."""
    found = Counter[str]()
    for job in world.emulator.memory(provider)["batches"].values():
        for task in job.tasks:
            found[str(task.body)] += 1
    return found


def kill(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether it was hit before its end."""
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return "done" not in process.communicate()[0]


@pytest.mark.timeout(120 + 10 * KILLS)
@pytest.mark.parametrize("provider", [*MODELS])
def test_killed_at_random_moments_every_request_is_answered_once_and_in_order(
    world: World, provider: str
) -> None:
    """Several batches, each killed a few times: while it is handed over, while it runs, and while its results are read."""
    dice = random.Random(f"{provider} {os.environ.get('SEGUE_TESTS_DAY', '')}")
    world.clock.now = time.time()
    world.emulator.clock = time.time
    world.emulator.batch_rate, world.emulator.batch_delay = COUNT / 1.5, 0.2
    model = f"{provider}/{MODELS[provider]}"
    hit = 0
    for run in range(1, 1 + math.ceil(KILLS / KILLS_OF_A_RUN)):
        for _ in range(min(KILLS, KILLS_OF_A_RUN)):
            hit += kill(start(world, model, run), dice.uniform(0, 0.25))
        last = start(world, model, run)
        assert last.communicate(timeout=60)[0].endswith("done\n")
        _check(world, provider, run)
    assert hit > KILLS / 4, f"only {hit} kills were before the end"
    sys.stderr.write(f"{provider}: {hit} kills before the end, {run} batches of {COUNT}\n")


def _check(world: World, provider: str, runs: int) -> None:
    path = max(world.directory.glob("*.batch"), key=lambda one: one.stat().st_ctime)
    batch = Batch.open(path, world.providers())
    assert [result.text for result in batch.results()] == [f"answer {n}" for n in range(COUNT)]
    handed = handed_over(world, provider)
    assert {*handed.values()} == {runs} and len(handed) == COUNT
    usual = [
        cost_of(structs.replace(result.usage, tier=""), provider, MODELS[provider])
        for result in batch.results()
    ]
    assert batch.status().cost == pytest.approx(sum(cost or 0 for cost in usual) / 2)  # the price of a batch
    assert batch.status().cost == pytest.approx(sum(result.cost or 0 for result in batch.results()))
    assert all(usual)
    assert all(result.usage.tier == "batch" and result.attempts == 1 for result in batch.results())
    batch.close()


@pytest.mark.timeout(120)
def test_killed_while_it_asks_one_by_one_only_what_was_under_way_is_asked_again(world: World) -> None:
    dice = random.Random("one by one")
    world.emulator.clock = time.time
    responder: Any = world.emulator.responder
    responder.rules = [(found, structs.replace(reply, delay=0.03)) for found, reply in responder.rules]
    for _ in range(KILLS):
        kill(start(world, "kimi/kimi-k2.6"), dice.uniform(0, 0.4))
    last = start(world, "kimi/kimi-k2.6")
    assert last.communicate(timeout=60)[0].endswith("done\n")
    [path] = world.directory.glob("*.batch")
    batch = Batch.open(path, world.providers())
    assert [result.text for result in batch.results()] == [f"answer {n}" for n in range(COUNT)]
    asked = sum(entry.method == "POST" for entry in world.emulator.log)
    assert asked <= COUNT + 4 * KILLS  # four at a time


class KilledError(BaseException):
    """Ends a run as a kill does: nothing behind it is done."""


def kill_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """The process ends behind its n-th statement that changes the file."""
    left = [writes]
    for name in ("begin_part", "update_part", "settle", "abandon_part", "disprove_part", "ask"):
        original = getattr(StateFile, name)

        def wrapped(self: StateFile, *args: Any, _original: Any = original, **more: Any) -> Any:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            done = _original(self, *args, **more)
            if left[0] == 0:
                raise KilledError
            return done

        monkeypatch.setattr(StateFile, name, wrapped)


@pytest.mark.parametrize("provider", [*MODELS, "kimi"])
def test_ended_behind_any_write_the_batch_continues(world: World, provider: str) -> None:
    """Systematically, beside the random kills: behind each write, with partial failure, in one process."""
    model = f"{provider}/{MODELS.get(provider, 'kimi-k2.6')}"
    for writes in range(1, 9):
        world.emulator.reset()
        world.emulator.batch_faults.append(Fault(status=500))
        with pytest.MonkeyPatch.context() as patch:
            batch = world.batch(prompts(3), model, run_number=writes)
            kill_after(patch, writes)
            with contextlib.suppress(KilledError, BaseExceptionGroup):
                asyncio.run(batch.run(pace=QUICK, concurrency=1))
        batch.close()
        again = Batch.open(batch.path, world.providers())
        status = asyncio.run(again.run(pace=QUICK))
        assert status.succeeded == 3, writes
        assert [result.text for result in again.results()] == ["answer 0", "answer 1", "answer 2"]
        if provider != "kimi":
            assert sorted(handed_over(world, provider).values()) == [1, 1, 2], (
                writes
            )  # one failed for a reason that passes


@pytest.mark.parametrize("provider", [*MODELS])
@pytest.mark.parametrize("kind", ["cut", "empty", "status"])
def test_an_answer_that_is_lost_does_not_make_a_second_batch(world: World, provider: str, kind: Any) -> None:
    """The batch is created and its connection breaks before its id arrives; or it is not created, and nobody knows."""
    world.emulator.faults.append(Fault(kind=kind, status=503, method="POST", path=CREATED[provider]))
    batch = world.batch(prompts(4), f"{provider}/{MODELS[provider]}")
    assert asyncio.run(batch.run(pace=QUICK)).succeeded == 4
    assert not world.emulator.faults and {*handed_over(world, provider).values()} == {1}


def test_a_batch_of_somebody_else_with_as_many_requests_is_not_taken_for_ours(world: World) -> None:
    """Anthropic's batches bear nothing of ours but the names in their results."""
    import httpx

    batch = world.batch(prompts(2), "anthropic/claude-sonnet-4-5")
    with pytest.MonkeyPatch.context() as patch:
        kill_after(patch, 1)
        with pytest.raises(KilledError):
            asyncio.run(batch.run(pace=QUICK))
    batch.close()
    params = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "theirs"}],
    }
    theirs = {"requests": [{"custom_id": f"x{n}", "params": params} for n in range(2)]}
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    answer = httpx.post(f"{world.served.url('anthropic')}/v1/messages/batches", json=theirs, headers=headers)
    assert answer.status_code == 200
    again = Batch.open(batch.path, world.providers())
    asyncio.run(again.run(pace=QUICK))
    assert [result.text for result in again.results()] == ["answer 0", "answer 1"]
    assert world.created("anthropic") == 2


@pytest.mark.parametrize("provider", [*MODELS])
def test_whatever_happens_every_request_has_one_outcome(provider: str, tmp_path_factory: Any) -> None:
    """Kills behind any write, days that pass, requests and answers that fail, in any order."""
    model = f"{provider}/{MODELS[provider]}"
    events = st.one_of(
        st.tuples(st.just("kill"), st.integers(1, 6)),
        st.tuples(st.just("days"), st.sampled_from([0.3, 1.1, 2.1])),
        st.tuples(st.just("fail"), st.sampled_from([400, 429, 500])),
        st.tuples(st.just("lose"), st.sampled_from(["cut", "empty", "status"])),
    )

    @settings(max_examples=8)
    @given(story=st.lists(events, max_size=6), rate=st.sampled_from([1.5, 3.0, 1e9]))
    def check(story: list[tuple[str, Any]], rate: float) -> None:
        with emulated(tmp_path_factory.mktemp("batch")) as world:
            world.emulator.batch_rate = rate / DAY
            batch = world.batch(prompts(4), model, retries=1)
            for kind, value in story:
                match kind:
                    case "days":
                        world.clock.now += value * DAY
                    case "fail":
                        world.emulator.batch_faults.append(Fault(status=value))
                    case "lose":
                        fault = Fault(kind=value, status=503, method="POST", path=CREATED[provider])
                        world.emulator.faults.append(fault)
                    case _:
                        with pytest.MonkeyPatch.context() as patch:
                            kill_after(patch, value)
                            with suppress(KilledError):
                                asyncio.run(batch.run(pace=QUICK, wait=False))
                        batch.close()
                        batch = Batch.open(batch.path, world.providers())
            later = lambda _: setattr(world.clock, "now", world.clock.now + DAY / 2)  # noqa: E731
            status = asyncio.run(batch.run(pace=QUICK, on_progress=later))
            assert status.is_complete and status.succeeded + status.failed + status.expired == 4
            for n, result in enumerate(batch.results()):
                assert result.text == (f"answer {n}" if result.status == "succeeded" else "")
                assert 1 <= result.attempts <= 2
            priced = [result.cost for result in batch.results() if result.status == "succeeded"]
            assert status.cost == pytest.approx(sum(cost or 0 for cost in priced))
            jobs = world.emulator.memory(provider)["batches"].values()
            handed = sum(len(job.tasks) for job in jobs)
            assert handed == sum(result.attempts for result in batch.results())
            batch.close()

    check()
