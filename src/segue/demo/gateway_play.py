"""Runs the demo of the gateway: one agent on one wire, the model behind it changed three times while it runs.

Emulators and gateway listen on loopback; the agent is a script in a thread that knows nothing of either.
"""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlsplit

from msgspec import Struct

from segue.config.schema import Config, GatewaySettings
from segue.demo.gateway_agent import MODEL, GatewayAgent, RefusedError
from segue.demo.story import Shop
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.emulators.server import Served, serve
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.hosts.addresses import addresses
from segue.providers.registry import default_registry
from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

_WIDTH: Final = 100
_PAUSE: Final = 20
"""After a turn, in delays."""


class TourStop(Struct, frozen=True):
    """One turn: who answers, what the user wants, which tools are called and what the model writes in the end."""

    title: str
    route: str
    user: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    thought: str
    answer: str


HOME: Final = f"anthropic/{MODEL}"
TOUR: Final = (
    TourStop(
        "Anthropic",
        HOME,
        "Checkout has been slow since two o'clock. What changed?",
        (("latency", {"service": "checkout"}), ("deploys", {"since": "13:30"})),
        "Measure first, then look at what was deployed.",
        "It rose from 180 to 2400 ms; deploy 841 went out at 13:58, just before.",
    ),
    TourStop(
        "Gemini",
        "gemini/gemini-3.5-flash",
        "Could it be the database instead?",
        (("slow_queries", {"database": "orders"}),),
        "One query per row would explain it.",
        "The totals are read 40 times for one order. That is new.",
    ),
    TourStop(
        "OpenAI Responses",
        "openai/gpt-5.5",
        "Which commit did that?",
        (("changes", {"deploy": 841}),),
        "Only deploy 841 is recent enough.",
        "9c1e, which reads totals row by row.",
    ),
    TourStop(
        "Anthropic",
        HOME,
        "Go back to 840 and measure again.",
        (("rollback", {"deploy": 840}), ("latency", {"service": "checkout"})),
        "Roll back, then measure.",
        "Deploy 840 is live, and checkout is back at 185 ms.",
    ),
)
"""The model is changed before each turn but the first."""


@final
class TourResult(Struct, frozen=True):
    """What the demo came to."""

    requests: int
    refused: int
    seals: int
    """Signatures of the first model in its last request, with two other models in between."""
    expected_seals: int
    home: str
    """What the agent's own provider has against its history without the gateway; empty if it accepts it."""

    @property
    def well(self) -> bool:
        return not self.refused and not self.home and self.seals == self.expected_seals


@final
class TourModel:
    """Every model of the tour: it thinks, calls the tools of its turn, and answers."""

    def reply(self, prompt: Prompt) -> Reply:
        stop = next((one for one in TOUR if one.user == prompt.text), None)
        if stop is None:
            return Reply(pieces=(Say("You are welcome."),))
        thoughts: list[Piece] = [Think(stop.thought)] if prompt.thinking else []
        if prompt.results:
            return Reply(pieces=(*thoughts, Say(stop.answer)))
        return Reply(pieces=(*thoughts, *(Call(name, arguments) for name, arguments in stop.calls)))

    def reset(self) -> None:
        """Nothing is remembered."""


def play_gateway(
    write: Callable[[str], None], paint: Callable[[str, str], str], *, delay: float = 0.0
) -> TourResult:
    """`delay`: a unit of the pauses between turns, for people to read along."""
    emulator = Emulator(strict=True, responder=TourModel())
    with serve(emulator=emulator) as served:
        return asyncio.run(_Tour(served, write, paint, delay).run())


class _Tour:
    def __init__(
        self, served: Served, write: Callable[[str], None], paint: Callable[[str, str], str], delay: float
    ) -> None:
        self._served = served
        self._write = write
        self._paint = paint
        self._delay = delay
        self._shop = {as_tool(function).spec.name: as_tool(function) for function in Shop().tools}

    async def run(self) -> TourResult:
        gateway = self._gateway()
        async with _listening(gateway) as base_url:
            self._line(self._paint("bold", "One agent on one wire, the model behind it changed three times"))
            self._paragraph(
                f"The agent knows one address, {base_url}, and asks for {MODEL} in Anthropic's format all the time. "
                "Behind it the gateway changes the model between its turns; strict emulators answer."
            )
            specs = [tool.spec for tool in self._shop.values()]
            tools = [
                {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}
                for spec in specs
            ]
            loop = asyncio.get_running_loop()
            agent = GatewayAgent(base_url, tools, lambda name, given: self._call(loop, name, given))
            for number, stop in enumerate(TOUR, 1):
                if number > 1:
                    await self._switch(gateway, agent, stop)
                await self._turn(number, stop, agent)
                await asyncio.sleep(self._delay * _PAUSE)
            home = await asyncio.to_thread(self._leave, agent)
        return self._close(home)

    def _gateway(self) -> Gateway:
        known = addresses().providers
        providers = {stop.route.partition("/")[0] for stop in TOUR}
        configs = {
            name: ProviderConfig(
                base_url=self._served.url(name) + urlsplit(known[name].base_url).path, api_key=Secret("demo")
            )
            for name in providers
        }
        store = SQLiteMemoryStore(max_bytes=1 << 24, max_records=1000, keep_seconds=3600)
        return Gateway(
            Config(gateway=GatewaySettings(models={MODEL: HOME})),
            default_registry(configs, environ={}, keyring=False),
            Memory(store, InstallationKey(os.urandom(32))),
        )

    async def _switch(self, gateway: Gateway, agent: GatewayAgent, stop: TourStop) -> None:
        await gateway.settle()
        command = f"$ segue switch {agent.conversation} {stop.route}"
        await gateway.memory.store.switch(agent.conversation, stop.route)
        self._line()
        self._line(self._paint("yellow", command))

    async def _turn(self, number: int, stop: TourStop, agent: GatewayAgent) -> None:
        before = len(self._served.emulator.log)
        self._line()
        self._line(f"{number}  {self._paint('bold', stop.title)} · {stop.route.partition('/')[2]}")
        self._labelled("user", stop.user)
        try:
            answer = await asyncio.to_thread(agent.turn, stop.user, self._show_call)
        except RefusedError as refusal:
            self._labelled("refused", str(refusal), "red")
            return
        self._labelled("answers", answer)
        requests = list(self._served.emulator.log)[before:]
        accepted = sum(entry.verdict == "accepted" for entry in requests)
        own = _signatures(requests[0].body) if number == len(TOUR) else 0
        back = f"; {own} signatures of its own, byte for byte" if own else ""
        self._labelled("provider", f"{accepted} of {len(requests)} requests accepted{back}", "green")

    def _show_call(self, name: str, given: Mapping[str, Any], result: str) -> None:
        self._labelled("calls", f"{name}({', '.join(str(value) for value in given.values())}) → {result}")

    def _call(self, loop: asyncio.AbstractEventLoop, name: str, given: Mapping[str, Any]) -> str:
        tool = self._shop[name]
        done = asyncio.run_coroutine_threadsafe(run_tool(tool, dict(given)), loop).result()
        return done.error or json.dumps(done.output, ensure_ascii=False)

    def _leave(self, agent: GatewayAgent) -> str:
        """The agent's history, sent to its own provider without the gateway; the refusal, or empty."""
        agent.history.append({"role": "user", "content": "Thank you."})
        try:
            agent.send(self._served.url("anthropic"))
        except RefusedError as refusal:
            return str(refusal)
        return ""

    def _close(self, home: str) -> TourResult:
        log = [entry for entry in self._served.emulator.log if entry.body]
        last = [entry for entry in log if entry.provider == "anthropic"][-2]
        result = TourResult(
            requests=len(log),
            refused=sum(entry.verdict == "refused" for entry in log),
            seals=_signatures(last.body),
            # Both replies of the first turn, and the first one of the last.
            expected_seals=3,
            home=home,
        )
        self._line()
        accepted = result.requests - result.refused
        self._line(
            self._paint(
                "green" if result.well else "red", f"{accepted} of {result.requests} requests accepted."
            )
        )
        leaving = f"refuses it: {home}" if home else "accepts it."
        self._paragraph(f"The agent's history, sent to Anthropic without the gateway: it {leaving}")
        return result

    def _line(self, text: str = "") -> None:
        self._write(text + "\n")

    def _paragraph(self, text: str) -> None:
        for line in textwrap.wrap(text, _WIDTH):
            self._line(line)

    def _labelled(self, label: str, text: str, colour: str = "") -> None:
        for number, line in enumerate(textwrap.wrap(text, _WIDTH - 12)):
            shown = self._paint("dim", f"{label if not number else '':<9}")
            self._line(f"   {shown}{self._paint(colour, line) if colour else line}")


def _signatures(body: Any) -> int:
    return sum(
        block.get("type") == "thinking" and bool(block.get("signature"))
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    )


@asynccontextmanager
async def _listening(gateway: Gateway) -> AsyncIterator[str]:
    """The gateway on a port of its own, in this loop."""
    import uvicorn  # noqa: PLC0415 - only who opens a port needs it

    config = uvicorn.Config(
        gateway, host="127.0.0.1", port=0, log_level="critical", access_log=False, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    try:
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await running
        await gateway.close()
