"""From the moment that a request is handed to a provider its input counts, and what came of the reply, however it ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from cli.cli_runs import Home
from gateway.accounts.paid_wires import ADDRESSES, PRICES, WIRES
from gateway.accounts.paid_world import KEY, ROUTES, WORD, PaidWorld, Provider, Scripted, paid_world
from segue.config.schema import Allowance, GatewayLimits
from segue.conversation.usage import Usage
from segue.gateway.accounts.account import Account, digest_of
from segue.gateway.accounts.budget_rules import MILLION, Charge, Reserved
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import RESERVED_SECONDS, Admission
from segue.providers.models.prices import PriceBook

End: TypeAlias = Literal[
    "complete", "refused", "unreachable", "cut", "error_frame", "client_gone", "silent", "timeout", "drain"
]
PROMPT = 2000
"""Words of the request, each a token or so."""
EXAMPLES = max(80, settings().max_examples)


class Story(Struct, frozen=True, kw_only=True):
    """A request and its end."""

    end: End
    client: str
    provider: str
    stream: bool
    counts: tuple[int, int] | None
    byte: int
    status: int


stories = st.builds(
    Story,
    end=st.sampled_from(End.__args__),  # type: ignore[attr-defined]
    client=st.sampled_from(sorted(WIRES)),
    provider=st.sampled_from(sorted(WIRES)),
    stream=st.booleans(),
    counts=st.none() | st.tuples(st.integers(PROMPT, 4 * PROMPT), st.integers(40, 2000)),
    byte=st.integers(0, 6000),
    status=st.sampled_from([400, 401, 403, 404, 413, 429, 500, 502, 503, 529]),
)


def counts_of(story: Story) -> dict[str, Any] | None:
    if story.counts is None:
        return None
    return WIRES[story.provider].counts(*story.counts)


def script_of(story: Story) -> Scripted:
    plain = Scripted(counts=counts_of(story))
    match story.end:
        case "refused":
            return Scripted(status=story.status)
        case "cut":
            return Scripted(counts=plain.counts, stop_at=story.byte, then="cut")
        case "silent":
            return Scripted(counts=plain.counts, stop_at=story.byte % 900, then="silence")
        case "timeout" | "drain":
            return Scripted(counts=plain.counts, stop_at=story.byte % 900, then="silence")
        case "client_gone":
            return Scripted(counts=plain.counts, pause=0.002 if story.byte else 0.05)
        case "error_frame":
            return Scripted(counts=plain.counts, error_at=story.byte % 30)
        case _:
            return plain


async def play(story: Story) -> tuple[int, int, Reserved, int]:
    """What was counted in millionths of a dollar, the same in the rows, what is reserved, and what the provider got."""
    limits = GatewayLimits(drain=0.1, reply_timeout=0.1 if story.end == "timeout" else 60.0)
    async with paid_world(limits=limits, members={"away": ["groq/openai/gpt-oss-120b"]}) as world:
        world.provider.scripts.append(script_of(story))
        model = "away" if story.end == "unreachable" else story.provider
        leave = story.byte if story.end == "client_gone" else None
        asking = asyncio.ensure_future(
            world.ask(story.client, model, WORD * PROMPT, leave_at=leave, stream=story.stream)
        )
        if story.end == "drain":
            await asyncio.wait_for(world.provider.asked.wait(), 10)
            await asyncio.sleep(0.02)
            await world.drain()
        await asyncio.gather(asking, return_exceptions=True)
        standing, reserved, rows = await world.settled()
        return standing.day_spent, sum(row.micros for row in rows), reserved, len(world.provider.got)


def micros(wire: str, read: float, written: float) -> float:
    provider, _, model = ROUTES[wire].partition("/")
    dollars = PriceBook(PRICES).cost_of(Usage(int(read), int(written)), provider, model)
    assert dollars is not None
    return dollars * MILLION


@settings(max_examples=EXAMPLES)
@given(stories)
def test_whatever_the_end_what_was_handed_over_is_counted(story: Story) -> None:
    spent, in_rows, reserved, got = asyncio.run(play(story))
    assert reserved == Reserved(), "nothing stays reserved"
    assert in_rows == spent, "what a caller has spent is what its rows add up to"
    if story.end in ("refused", "unreachable"):
        assert spent == 0
        return
    if story.end == "timeout" and not got:
        return  # on a busy machine the time is over before the provider has the request
    assert got == 1
    read, written = story.counts or (PROMPT, 40)
    if story.end == "complete" and story.counts is not None:
        assert spent == pytest.approx(micros(story.provider, read, written), abs=1)
        return
    assert spent >= micros(story.provider, PROMPT / 2, 0), "at least the input"
    assert spent <= micros(story.provider, max(2 * PROMPT, read), max(400, written)) + 1, (
        "and no more than came of it"
    )


@pytest.mark.parametrize("client", sorted(WIRES))
@pytest.mark.parametrize("stream", [True, False])
def test_leaving_before_the_first_content_is_not_free(client: str, *, stream: bool) -> None:
    async def story(world: PaidWorld) -> None:
        world.provider.scripts += [Scripted(stop_at=0, then="silence")] * 20
        text = WORD * 100_000
        for _ in range(20):
            asking = asyncio.ensure_future(world.ask(client, "chat", text, leave_at=0, stream=stream))
            await asyncio.wait([asking], timeout=1.0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            standing, _, _ = await world.settled()
            if standing.day_spent >= 50_000:
                break
        status, body = await world.ask(client, "chat", text, stream=stream)
        assert status in (400, 402, 429), "each wire has its own status for this"
        assert b"budget of" in body
        standing, reserved, _ = await world.settled()
        assert len(world.provider.got) == 1, "one request is dearer than the budget, and the last"
        assert 100_000 <= standing.day_spent <= 400_000
        assert reserved == Reserved()

    async def main() -> None:
        async with paid_world(dollars=0.05) as world:
            await story(world)

    asyncio.run(main())


def provider_of(wire: str) -> str:
    return ROUTES[wire].partition("/")[0]


def other_than(wire: str) -> str:
    """Each wire has another one behind it, at another provider, so that every wire fails once and takes over once."""
    names = sorted(WIRES)
    behind = names[names.index(wire) + 1 :] + names
    return next(name for name in behind if provider_of(name) != provider_of(wire))


@pytest.mark.parametrize("wire", sorted(WIRES))
@pytest.mark.parametrize("stream", [True, False])
def test_a_provider_whose_name_cannot_be_resolved_costs_nothing_and_the_next_one_answers(
    wire: str, *, stream: bool
) -> None:
    second = other_than(wire)
    team = {"lost": [ROUTES[wire]], "team": [ROUTES[wire], ROUTES[second]]}

    async def main() -> None:
        async with paid_world(members=team, lost=provider_of(wire)) as world:
            world.provider.scripts.append(Scripted(counts=WIRES[second].counts(3000, 50)))
            status, body = await world.ask(wire, "lost", WORD * PROMPT, stream=stream)
            assert status >= 500, body
            standing, reserved, _ = await world.settled()
            assert (standing.day_spent, reserved) == (0, Reserved())
            status, body = await world.ask(wire, "team", WORD * PROMPT, stream=stream)
            assert status == 200, body
            standing, reserved, _ = await world.settled()
            assert standing.day_spent == pytest.approx(micros(second, 3000, 50), abs=1)
            assert reserved == Reserved()

    asyncio.run(main())


@pytest.mark.parametrize("wire", sorted(WIRES))
@pytest.mark.parametrize("first", ["silence", "cut", "error_frame", "status"])
def test_each_attempt_of_a_failover_that_may_be_billed_is_counted_at_its_own_route(
    wire: str, first: str
) -> None:
    failing = {
        "silence": Scripted(stop_at=0, then="silence"),
        "cut": Scripted(stop_at=20, then="cut"),
        "error_frame": Scripted(error_at=0),
        "status": Scripted(status=503),
    }
    second = other_than(wire)

    async def main() -> None:
        async with paid_world(members={"team": [ROUTES[wire], ROUTES[second]]}) as world:
            world.provider.scripts += [failing[first], Scripted(counts=WIRES[second].counts(3000, 50))]
            status, body = await world.ask("anthropic", "team", WORD * PROMPT, stream=True)
            assert status == 200, body
            standing, _, rows = await world.settled()
            by_route = {row.route: row for row in rows}
            answered = by_route.pop(ROUTES[second])
            assert (answered.requests, answered.failovers) == (1, 1)
            assert (answered.input_tokens, answered.output_tokens) == (3000, 50)
            assert standing.day_spent == sum(row.micros for row in rows)
            if first == "status":
                assert by_route == {}
                return
            failed = by_route[ROUTES[wire]]
            assert failed.requests == 0, "it is still one request of the caller"
            assert failed.input_tokens >= PROMPT / 2
            assert failed.micros >= micros(wire, PROMPT / 2, 0) - 1
            report = world.reports[-1]
            assert report.usage.input_tokens == 3000 + failed.input_tokens
            assert report.usage_estimated

    asyncio.run(main())


WITH_OWN_DOOR = sorted(WIRES.keys() - {"kimi"})
"""Clients of Kimi speak Chat: what they send is written anew, and there is nothing to leave out."""


@pytest.mark.parametrize("wire", WITH_OWN_DOOR)
@pytest.mark.parametrize("end", ["complete", "silence", "cut", "status"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_second_try_counts_and_the_refused_first_one_does_not(wire: str, end: str, *, stream: bool) -> None:
    """A request with a setting that its own provider does not take is sent once more without it."""
    counts = WIRES[wire].counts(3000, 50)
    again = {
        "complete": Scripted(counts=counts),
        "silence": Scripted(stop_at=0, then="silence"),
        "cut": Scripted(counts=counts, stop_at=20, then="cut"),
        "status": Scripted(status=400),
    }

    async def main() -> None:
        async with paid_world() as world:
            world.provider.scripts += [Scripted(status=400), again[end]]
            new: dict[str, Any] = {"setting_of_tomorrow": {"edits": []}, "stream": stream}
            await world.ask(wire, wire, WORD * PROMPT, **new)
            standing, reserved, (row,) = await world.settled()
            first, second = map(str, world.provider.got)
            assert "setting_of_tomorrow" in first
            assert "setting_of_tomorrow" not in second
            assert reserved == Reserved()
            assert standing.day_spent == row.micros
            if end == "complete":
                assert (row.input_tokens, row.output_tokens) == (3000, 50)
            elif end == "status":
                assert (row.input_tokens, row.micros) == (0, 0)
            else:
                assert PROMPT / 2 <= row.input_tokens <= 3000, "once"
                assert row.micros >= micros(wire, PROMPT / 2, 0) - 1

    asyncio.run(main())


CARELESS = "Thought: I am careless.\nAction: weather\nAction Input: {city: Rome"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


NO_TOOLS = {
    **dict.fromkeys(("chat", "kimi", "ollama"), "This model does not support tools."),
    **dict.fromkeys(("mistral", "gemini"), "Function calling is not enabled for this model."),
}
"""How wires refuse tools; the others have no model without."""


@pytest.mark.parametrize("wire", sorted(NO_TOOLS))
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_each_time_that_a_model_is_asked_for_its_tools_in_words_counts(
    wire: str, *, counted: bool, leaves: bool, stream: bool
) -> None:
    counts = WIRES[wire].counts(3000, 20) if counted else None
    refused = Scripted(status=400, message=NO_TOOLS[wire])
    wrong = Scripted(text=CARELESS, counts=counts)
    last = (
        Scripted(stop_at=0, then="silence") if leaves else Scripted(text="Final Answer: Rain.", counts=counts)
    )

    async def main() -> None:
        async with paid_world() as world:
            world.provider.scripts += [refused, wrong, wrong, last]
            status, body = await world.ask("chat", wire, WORD * PROMPT, stream=stream, tools=TOOLS)
            assert (status == 200, b"Rain" in body) == (not leaves, not leaves), body
            standing, reserved, (row,) = await world.settled()
            assert len(world.provider.got) == 4, "of which one was refused by its status"
            least = 3000 if counted else PROMPT / 2
            assert row.input_tokens >= (2 if leaves else 3) * least
            if counted and not leaves:
                assert (row.input_tokens, row.output_tokens) == (9000, 60)
            elif leaves:
                assert row.input_tokens >= 2 * least + PROMPT / 2, "the last one too"
            assert standing.day_spent == row.micros >= micros(wire, row.input_tokens, 0) - 1
            assert reserved == Reserved()
            assert world.reports[-1].usage_estimated == (leaves or not counted)

    asyncio.run(main())


@pytest.mark.parametrize("wire", sorted(WIRES))
@pytest.mark.parametrize("end", ["complete", "silence", "cut", "cancelled", "timeout"])
def test_a_reply_that_is_made_in_the_background_counts_however_it_ends(wire: str, end: str) -> None:
    counts = WIRES[wire].counts(3000, 20)
    scripts = {
        "complete": Scripted(counts=counts),
        "cut": Scripted(counts=counts, stop_at=10, then="cut"),
    }

    async def main() -> None:
        limits = GatewayLimits(drain=0.1, reply_timeout=0.1 if end == "timeout" else 60.0)
        async with paid_world(limits=limits) as world:
            world.provider.scripts.append(scripts.get(end, Scripted(stop_at=0, then="silence")))
            asked = {"model": wire, "input": WORD * PROMPT, "background": True}
            status, body = await world.send("/v1/responses", asked)
            assert status == 200, body
            if end == "cancelled":
                await asyncio.wait_for(world.provider.asked.wait(), 10)
                reply_id = json.loads(body)["id"]
                await world.send(f"/v1/responses/{reply_id}/cancel", {})
            await world.gateway.complete()
            standing, reserved, (row,) = await world.settled()
            assert reserved == Reserved()
            if end == "timeout" and not world.provider.got:
                return  # on a busy machine the time is over before the provider has the request
            least = 3000 if end == "complete" else PROMPT / 2
            assert row.input_tokens >= least
            assert standing.day_spent == row.micros >= micros(wire, least, 0) - 1

    asyncio.run(main())


SUMMARIES = ("/v1/responses/compact", "/v1/responses")
VECTORS = "/v1/embeddings"


@pytest.mark.parametrize("end", ["complete", "uncounted", "silence", "cut", "status", "client_gone"])
@pytest.mark.parametrize(("path", "wire"), [*itertools.product(SUMMARIES, sorted(WIRES)), (VECTORS, "chat")])
def test_summaries_and_vectors_count_however_they_end(path: str, wire: str, end: str) -> None:
    read = {"prompt_tokens": 3000, "total_tokens": 3000} if path == VECTORS else WIRES[wire].counts(3000, 20)
    scripts = {
        "complete": Scripted(counts=read),
        "uncounted": Scripted(),
        "cut": Scripted(counts=read, stop_at=10, then="cut"),
        "status": Scripted(status=400),
    }
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": WORD * PROMPT}]}
    bodies: dict[str, Any] = {
        "/v1/responses/compact": {"model": wire, "input": [said]},
        "/v1/responses": {"model": wire, "input": [said, {"type": "compaction_trigger"}]},
        VECTORS: {"model": "openai/text-embedding-3-small", "input": [WORD * PROMPT]},
    }

    async def main() -> None:
        async with paid_world() as world:
            world.provider.scripts.append(scripts.get(end, Scripted(stop_at=0, then="silence")))
            await world.send(path, bodies[path], leave_at=0 if end == "client_gone" else None)
            standing, reserved, rows = await world.settled()
            assert reserved == Reserved()
            read_tokens = sum(row.input_tokens for row in rows)
            assert standing.day_spent == sum(row.micros for row in rows)
            if end == "status":
                assert (standing.day_spent, read_tokens) == (0, 0)
            elif end == "complete":
                assert read_tokens == 3000
            else:
                assert read_tokens >= PROMPT / 2
                assert standing.day_spent > 0

    asyncio.run(main())


@pytest.mark.parametrize("clients", [1, 4])
def test_a_budget_is_overrun_by_no_more_than_what_was_in_flight(clients: int) -> None:
    counts = {"prompt_tokens": 8000, "completion_tokens": 40, "total_tokens": 8040}
    dear = 8000 * 2 + 40 * 8
    """Millionths of a dollar, several times what is reserved."""

    async def main() -> None:
        async with paid_world(dollars=0.1) as world:
            ends = itertools.cycle([Scripted(counts=counts), Scripted(stop_at=0, then="cut")])
            world.provider.scripts += [next(ends) for _ in range(400)]
            refused = 0

            async def client() -> None:
                nonlocal refused
                for _ in range(60):
                    status, body = await world.ask("anthropic", "chat", WORD * PROMPT)
                    if status == 429 and b"budget of" in body:
                        refused += 1
                        return

            await asyncio.gather(*(client() for _ in range(clients)))
            standing, reserved, _ = await world.settled()
            assert refused == clients
            assert 100_000 <= standing.day_spent <= 100_000 + clients * dear
            assert reserved == Reserved()

    asyncio.run(main())


def test_requests_of_a_gateway_that_was_killed_count_when_their_reservations_are_over(tmp_path: Path) -> None:
    """One on each wire."""

    async def main() -> None:
        provider = Provider()
        provider.scripts.append(Scripted(stop_at=0, then="silence"))
        upstream = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 22)
        address = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        home = Home(tmp_path)
        home.configure(
            f'[gateway]\nport = {port}\nlog = "off"\n'
            f'[gateway.callers.ann]\nkey_sha256 = "{digest_of(KEY)}"\ndollars_per_day = 1.0\n'
            '[prices]\n"ollama/*" = { input = 1.0, output = 4.0 }\n'
            + "".join(
                f'[providers.{name}]\napi_key = "sk-emulated"\nbase_url = "{address}{path}"\n'
                + ('region = "us-east-1"\n' if name == "bedrock" else "")
                for name, path in ADDRESSES.items()
            )
        )
        gateway = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "segue", "serve"),
            stderr=asyncio.subprocess.PIPE,
            env=home.full(),
            cwd=home.project,
        )
        assert gateway.stderr is not None
        assert (await gateway.stderr.readline()).startswith(b"Serving")
        world = PaidWorld(None, port, provider, None, None)  # type: ignore[arg-type]
        asking = [
            asyncio.ensure_future(world.ask(wire, ROUTES[wire], WORD * PROMPT, stream=True)) for wire in WIRES
        ]
        async with asyncio.timeout(30):
            while len(provider.got) < len(WIRES):
                await asyncio.sleep(0.01)
        gateway.kill()
        await gateway.wait()
        await asyncio.gather(*asking, return_exceptions=True)
        upstream.close()
        provider.close()
        (file,) = tmp_path.rglob("accounts.db")
        later = SQLiteAccountStore(file, clock=lambda: time.time() + RESERVED_SECONDS + 1)
        _, reserved = await later.standing("ann")
        assert reserved.expired >= sum(micros(wire, PROMPT / 2, 0) for wire in WIRES), "at least the input"
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0))
        assert isinstance(await later.admit("next", ann, Charge(1, 1)), Admission)
        standing, _ = await later.standing("ann")
        assert standing.day_spent >= reserved.expired
        await later.close()

    asyncio.run(main())
