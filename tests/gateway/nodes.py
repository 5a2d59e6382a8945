"""Several gateways on one PostgreSQL database, as on several machines: conversations are spread at random, nodes are killed."""

from __future__ import annotations

import base64
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from cli.cli_runs import Home
from gateway.crashes import TOOL, folded_reply, signatures_in
from gateway.limited_callers import (
    Got,
    LimitedCaller,
    caller_settings,
    key_of,
    limited_callers,
    limited_traffic,
)
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.emulators.server import Served, serve

ANTHROPIC: Final = "anthropic/claude-sonnet-4-6"
GEMINI: Final = "gemini/gemini-3.5-flash"
KEY: Final = base64.b64encode(b"n" * 32).decode()
CLIENTS: Final = 8
WAIT_SECONDS: Final = 180.0
"""However busy the machine is."""
AGENT: Final = "agent"
"""The caller whose conversations they are: it is counted too, and far from its limits."""
AGENT_LIMITS: Final = (
    "dollars_per_day = 100000\nrequests_per_minute = 1000000\ntokens_per_minute = 1000000000"
)

FEW: Final = limited_callers(budget=12, per_minute=12)


class Plan(Struct, frozen=True, kw_only=True):
    """How much is sent and killed."""

    nodes: int
    conversations: int
    turns: int
    """Of each conversation; each has two requests."""
    kills: int
    """At most."""
    seed: int
    pause: float = 0.5
    """Seconds between two kills at most."""
    seconds: float = float("inf")
    """After which no turn begins."""
    callers: tuple[LimitedCaller, ...] = FEW
    """Who send as much as their limits allow beside the conversations."""


class Spread(Struct):
    """What happened."""

    requests: int = 0
    kills: int = 0
    broken_off: int = 0
    """Requests whose node died before the reply was whole; they were sent again, to any node."""
    turns: int = 0
    signatures: int = 0
    """Of Anthropic's replies, in the last request of each conversation to it; all that there should be."""
    seconds: float = 0.0
    limited: dict[str, Got] = {}
    """What the callers with limits got."""


class Looker:
    """Looks once in each turn, and tells who it is."""

    def reply(self, prompt: Prompt) -> Reply:
        thought: list[Piece] = [Think("Let me look at it first.")] if prompt.thinking else []
        if not prompt.tools:
            return Reply(pieces=(Say("All right."),))
        if prompt.results:
            return Reply(pieces=(*thought, Say(f"{prompt.provider} saw {prompt.results[-1]}.")))
        return Reply(pieces=(*thought, Say(f"{prompt.provider} will look."), Call("look", {})))

    def reset(self) -> None:
        """Nothing is remembered."""


class Node:
    """`segue serve` on one port, with a home of its own, however often it is killed."""

    def __init__(self, home: Home, api: Served, url: str, callers: tuple[LimitedCaller, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._home = home
        self._environment = home.full(SEGUE_STORE=url, SEGUE_INSTALLATION_KEY=KEY)
        home.configure(
            f'[gateway]\nport = {self.port}\nlog = "off"\nmodel = "team"\n'
            f'[profiles.team]\nmembers = ["{ANTHROPIC}", "{GEMINI}"]\npolicy = "round_robin"\n'
            f'[providers.anthropic]\nbase_url = "{api.url("anthropic")}"\napi_key = "sk-emulated"\n'
            f'[providers.gemini]\nbase_url = "{api.url("gemini")}/v1beta"\napi_key = "sk-emulated"\n'
            + caller_settings(AGENT, AGENT_LIMITS)
            + "".join(caller.settings for caller in callers)
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.is_up = False

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "segue", "serve"],
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=self._home.project,
        )
        assert self._process.stderr is not None
        assert self._process.stderr.readline().startswith(b"Serving"), self._process.stderr.read()
        self.is_up = True

    def kill(self) -> None:
        self.is_up = False
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(WAIT_SECONDS)
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None


class Nodes:
    """All nodes, and what stands before them: any load balancer that sends a request to any node that is up."""

    def __init__(self, nodes: list[Node], seed: int) -> None:
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.found = Spread()

    def ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The reply, from whichever node lives long enough. Raises AssertionError if one refuses."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            port = self.any_port()
            with self._lock:
                self.found.requests += 1
            reply = _ask(port, messages) if port is not None else None
            if reply is not None:
                return reply
            assert time.monotonic() < deadline, "no node answered"
            with self._lock:
                self.found.broken_off += 1
            time.sleep(0.02)

    def any_port(self) -> int | None:
        with self._lock:
            up = [node.port for node in self._nodes if node.is_up]
            return self._chance.choice(up) if up else None

    def kill_one(self) -> None:
        with self._lock:
            node = self._chance.choice(self._nodes)
        node.kill()
        self.found.kills += 1
        node.start()


def _ask(port: int, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The reply to a streaming client of the Chat wire; None if it did not come to its end."""
    body = {
        "model": "team",
        "messages": messages,
        "stream": True,
        "reasoning_effort": "high",
        "tools": [{"type": "function", "function": TOOL}],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        headers = {"content-type": "application/json", "authorization": f"Bearer {key_of(AGENT)}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return folded_reply(data) if data.rstrip().endswith(b"data: [DONE]") else None


@contextmanager
def open_nodes(place: Path, url: str, plan: Plan) -> Iterator[tuple[Nodes, Emulator]]:
    emulator = Emulator(strict=True, responder=Looker(), log_size=100_000)
    with serve(emulator=emulator) as api, ExitStack() as stack:
        homes = [Home(place / f"node{number}") for number in range(plan.nodes)]
        nodes = [Node(home, api, url, plan.callers) for home in homes]
        for node in nodes:
            stack.callback(node.kill)
        with ThreadPoolExecutor(plan.nodes) as pool:  # all create the tables at the same time
            list(pool.map(Node.start, nodes))
        yield Nodes(nodes, plan.seed), emulator


def spread_at_random(
    place: Path, url: str, plan: Plan, on_turn: Callable[[Spread], object] = lambda _: None
) -> Spread:
    """Raises if a conversation's request is refused, a turn changes its route, a signature is missing, or a limit does not
    hold."""
    started = time.monotonic()
    callers = plan.callers
    with open_nodes(place, url, plan) as (spread, emulator):
        over = threading.Event()
        killer = threading.Thread(target=_kill_now_and_then, args=(spread, plan, over))
        killer.start()
        try:
            with (
                limited_traffic(callers, spread.any_port, url) as traffic,
                ThreadPoolExecutor(CLIENTS) as pool,
            ):
                held: list[list[dict[str, Any]]] = [[] for _ in range(plan.conversations)]
                for _ in range(plan.turns):
                    if time.monotonic() - started > plan.seconds:
                        break
                    list(pool.map(lambda number: _take_turn(spread, number, held[number]), range(len(held))))
                    spread.found.turns += len(held)
                    on_turn(spread.found)
        finally:
            over.set()
            killer.join()
        found = spread.found
        refused = [entry for entry in emulator.log if entry.verdict == "refused"]
        assert not refused, (refused[0].provider, refused[0].rule, refused[0].message)
        found.signatures = sum(
            _check_signatures(emulator, number, held[number]) for number in range(plan.conversations)
        )
        found.limited = traffic.check(emulator)
        found.seconds = time.monotonic() - started
        return found


def _kill_now_and_then(spread: Nodes, plan: Plan, over: threading.Event) -> None:
    chance = random.Random(plan.seed)
    while spread.found.kills < plan.kills:
        if over.wait(chance.uniform(0.0, plan.pause)) and spread.found.kills:
            return
        spread.kill_one()


def _take_turn(spread: Nodes, number: int, messages: list[dict[str, Any]]) -> None:
    """Adds to what the client holds."""
    turn = len(messages) // 4
    messages.append({"role": "user", "content": f"Conversation {number}: look at number {turn}."})
    calling = spread.ask(messages)
    (call,) = calling["tool_calls"]
    messages += [calling, {"role": "tool", "tool_call_id": call["id"], "content": f"number {turn}"}]
    ending = spread.ask(messages)
    messages.append(ending)
    assert ending["content"].split()[0] == calling["content"].split()[0], "a turn changed its route"


def _check_signatures(emulator: Emulator, number: int, held: list[dict[str, Any]]) -> int:
    """Every reply of Anthropic that the client had seen is in the last request to it, with its signature."""
    name = f"Conversation {number}: "
    bodies = [
        entry.body
        for entry in emulator.log
        if entry.provider == "anthropic" and entry.body and name in json.dumps(entry.body["messages"][0])
    ]
    if not bodies:
        return 0
    last = bodies[-1]
    asked = sum(f"{name}look" in json.dumps(message) for message in last["messages"])
    before = [message for message in held if message["role"] == "assistant"][: 2 * (asked - 1)]
    known: int = sum((message["content"] or "").startswith("anthropic") for message in before)
    open_turn = last["messages"][-1]["content"] if isinstance(last["messages"][-1]["content"], list) else []
    known += any(block.get("type") == "tool_result" for block in open_turn)
    assert signatures_in(last) == known, (number, signatures_in(last), known)
    return known
