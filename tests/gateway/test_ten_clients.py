"""Ten clients that share their first message, switched at random: none moves another, and no turn is torn.

A rule-based machine over two gateways on one store, and a random script over HTTP. Its long form: make gateway-laws.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import urllib.error
import urllib.request
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cli.cli_runs import Home
from cli.commands.test_gateway_commands import Gateway
from gateway.machine_world import TwoGateways
from gateway.ten_clients import WORDS, Client, SameAnswers, TenClients
from gateway.world import ROUTES, GatewayResponse
from segue.emulators.emulator import Emulator
from segue.emulators.server import serve

T = TypeVar("T")
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
SECONDS = 600.0 if LONG else 20.0
TARGETS = (*ROUTES.values(), "")
picks = st.integers(0, 9)


class TenClientsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.world = TwoGateways(Path(self.folder.name))
        self.world.emulator.responder = SameAnswers()
        self.ten = TenClients(self.world, self._switch)

    async def _switch(self, conversation: str, model: str) -> bool:
        await self.world.gateway.settle()
        return await self.world.gateway.memory.store.switch(conversation, model)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, SECONDS))

    def _client(self, pick: int) -> Client:
        return self.ten.clients[pick]

    @rule(pick=picks, text=st.sampled_from(WORDS), stream=st.booleans(), at=st.integers(0, 1))
    def say(self, pick: int, text: str, stream: bool, at: int) -> None:
        self.world.use(at)
        self.run(self.ten.say(self._client(pick), text, stream=stream))

    @rule(stream=st.booleans(), at=st.integers(0, 1))
    def all_say_hello(self, stream: bool, at: int) -> None:
        self.world.use(at)
        for client in self.ten.clients:
            self.run(self.ten.say(client, WORDS[0], stream=stream))

    @rule(pick=picks, stream=st.booleans(), at=st.integers(0, 1))
    def answer(self, pick: int, stream: bool, at: int) -> None:
        self.world.use(at)
        self.run(self.ten.answer(self._client(pick), stream=stream))

    @rule(pick=picks, to=st.sampled_from(TARGETS))
    def switch(self, pick: int, to: str) -> None:
        self.run(self.ten.switch(self._client(pick), to))

    @rule(pick=picks)
    def begin_again(self, pick: int) -> None:
        self._client(pick).begin_again()

    @rule(number=st.integers(0, 1))
    def restart(self, number: int) -> None:
        self.run(self.world.restart_one(number))

    @invariant()
    def nothing_is_refused(self) -> None:
        assert [(entry.rule, entry.message) for entry in self.world.refusals()] == []

    def teardown(self) -> None:
        self.run(self.world.close())
        self.loop.close()
        self.folder.cleanup()


TestTenClientsMachine = TenClientsMachine.TestCase
TestTenClientsMachine.settings = settings(
    max_examples=settings().max_examples // 4 if LONG else 6,
    stateful_step_count=60 if LONG else 20,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)


class HttpWorld:
    """Two gateways in processes of their own, each request to any of them."""

    def __init__(self, gateways: list[Gateway], chance: random.Random) -> None:
        self._gateways = gateways
        self._chance = chance

    async def ask(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> GatewayResponse:
        url = self._chance.choice(self._gateways).url + path
        sent = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(url, json.dumps(body).encode(), sent)  # noqa: S310 - loopback
        return await asyncio.to_thread(_asked, request)

    async def switch(self, conversation: str, model: str) -> bool:
        reply = await self.ask(f"/segue/v1/conversations/{conversation}/switch", {"model": model})
        return reply.status == 200


def _asked(request: urllib.request.Request) -> GatewayResponse:
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - loopback
            return GatewayResponse(reply.status, dict(reply.headers), reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return GatewayResponse(error.code, dict(error.headers), error.read())


def test_over_http_a_switch_moves_exactly_one_of_ten(tmp_path: Path) -> None:
    home = Home(tmp_path)
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    emulator = Emulator(strict=True, responder=SameAnswers(), log_size=10_000)
    with serve(emulator=emulator) as api:
        paths = {"openai": "/v1", "gemini": "/v1beta", "mistral": "/v1", "kimi": "/v1"}
        providers = {name.partition("/")[0] for name in ROUTES.values()}
        home.configure(
            '[gateway]\nport = 0\nlog = "off"\n'
            + "".join(
                f'[providers.{name}]\nbase_url = "{api.url(name)}{paths.get(name, "")}"\napi_key = "sk-emulated"\n'
                for name in sorted(providers)
            )
        )
        gateways = [Gateway(home) for _ in range(2)]
        try:
            world = HttpWorld(gateways, chance)
            ten = TenClients(world, world.switch)
            asyncio.run(_script(ten, chance, 4000 if LONG else 150))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            for gateway in gateways:
                gateway.stop()
        assert [entry.message for entry in emulator.log if entry.verdict == "refused"] == []
    assert ten.moved > ten.lost


async def _script(ten: TenClients, chance: random.Random, steps: int) -> None:
    for client in ten.clients:
        await ten.say(client, WORDS[0], stream=False)
    for _ in range(steps):
        client = chance.choice(ten.clients)
        stream = chance.random() < 0.5
        step = chance.random()
        if step < 0.25:
            await ten.switch(client, chance.choice(TARGETS))
        elif step < 0.3:
            client.begin_again()
        elif client.pending and step < 0.9:
            await ten.answer(client, stream=stream)
        else:
            await ten.say(client, chance.choice(WORDS), stream=stream)
