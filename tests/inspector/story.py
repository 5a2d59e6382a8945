"""A gateway with its inspector on loopback, the emulators behind it, and one story: a bug is fixed by four models in turn.

An agent on the wire of Anthropic works for six turns. Its first model is switched for another by its user; the next turn fails
over after two refusals; one tool call is interrupted; then its first model returns, and at the end new tools cost its cache.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from segue.config.schema import Config, GatewaySettings, InspectSettings, ProfileSettings, SessionSettings
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.inspector.access.logins import new_token
from segue.inspector.inspector import Inspector
from segue.inspector.record.content_file import ContentFile
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.routing.retry import RetrySettings
from segue.transports.asgi import AsgiTransport

OPUS, GEMINI, MISTRAL = "anthropic/claude-opus-4-7", "gemini/gemini-3.5-flash", "mistral/mistral-large-latest"
GPT, KIMI = "openai/gpt-5.5", "kimi/kimi-k2.6"
KEY = InstallationKey(b"i" * 32)
_PATHS = {"openai": "/v1", "gemini": "/v1beta", "mistral": "/v1", "kimi": "/v1"}
_SCRIPT: Mapping[str, tuple[tuple[tuple[str, dict[str, Any]], ...], str]] = {
    "test_refund_total fails: refunds in EUR are off by one cent. Find out why.": (
        (
            ("Grep", {"pattern": r"round\(", "path": "src"}),
            ("Read", {"file_path": "src/ledger/refund.py"}),
            ("Bash", {"command": "pytest -q tests/test_refund.py"}),
        ),
        "refund.py rounds each line and then adds; the invoice adds and then rounds. With three lines of 6.665 the two differ by a cent.",
    ),
    "Fix it, and keep the public functions as they are.": (
        (
            (
                "Edit",
                {"file_path": "src/ledger/refund.py", "old_string": "round(line)", "new_string": "line"},
            ),
            ("Bash", {"command": "pytest -q tests/test_refund.py"}),
        ),
        "Fixed: refund_total adds exact amounts and rounds once, half to even, as the invoice does.",
    ),
    "Is the same mistake anywhere else? Run all the tests as well.": (
        (
            ("Grep", {"pattern": r"quantize\(", "path": "src"}),
            ("Read", {"file_path": "src/ledger/credit_note.py"}),
        ),
        "",
    ),
    "Stop, the tests are slow. Just fix credit_note.py the same way.": (
        (
            (
                "Edit",
                {"file_path": "src/ledger/credit_note.py", "old_string": "quantize", "new_string": "amount"},
            ),
            ("Bash", {"command": "pytest -q tests/test_credit_note.py"}),
        ),
        "credit_total now adds first and rounds once. The 8 tests of credit notes pass.",
    ),
    "Review both changes. Is half to even right for refunds?": (
        (("Bash", {"command": "git diff"}), ("Read", {"file_path": "docs/rounding.md"})),
        "Yes: docs/rounding.md asks for half to even on every total. One thing is left: credit_note.py imports ROUND_HALF_UP and no longer uses it.",
    ),
    "Remove it, and open an issue for the slow tests.": (
        (
            (
                "Edit",
                {"file_path": "src/ledger/credit_note.py", "old_string": "ROUND_HALF_UP", "new_string": ""},
            ),
        ),
        "Removed the import. LED-212 is open for the test suite.",
    ),
}
TURNS = tuple(_SCRIPT)
_RESULTS = {
    "Grep": "src/ledger/refund.py:41\nsrc/ledger/credit_note.py:17\nsrc/ledger/invoice.py:12",
    "Read": "from decimal import Decimal, ROUND_HALF_UP\n" + "def refund_total(lines): ...\n" * 90,
    "Bash": "12 passed in 3.10s",
    "Edit": "2 lines added, 3 removed",
}
_SYSTEM = (
    "You are Claude Code, an agent for software.\nWorking directory: ~/src/ledger\n" + "Be careful. " * 900
)
HEADERS = {
    "content-type": "application/json",
    "user-agent": "claude-cli/2.1.326 (external, cli)",
    "anthropic-version": "2023-06-01",
    "x-api-key": "sk-ant-a-key-of-a-client-000000",
}


class StoryModel:
    """Every model of the story: thinks where it can, calls the tools of its turn one after another, and answers."""

    def reply(self, prompt: Prompt) -> Reply:
        calls, answer = _SCRIPT.get(prompt.text, ((), f"You said: {prompt.text[:200]}"))
        thoughts: list[Piece] = (
            [Think("First look, then change one thing.")] if prompt.thinking and not prompt.results else []
        )
        if prompt.results and not answer:
            return Reply(pieces=(Say("Now all of the tests."), Call("Bash", {"command": "pytest -q"})))
        if prompt.results or not calls or not prompt.tools:
            return Reply(pieces=(*thoughts, Say(answer or "Done.")))
        return Reply(pieces=(*thoughts, *(Call(name, arguments) for name, arguments in calls)))

    def reset(self) -> None:
        """Nothing is remembered."""


def tool(name: str, *fields: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name} of the agent. " * 20,
        "input_schema": {
            "type": "object",
            "properties": {field: {"type": "string"} for field in fields},
            "required": list(fields[:1]),
        },
    }


TOOLS = [
    tool("Bash", "command"),
    tool("Edit", "file_path", "old_string", "new_string"),
    tool("Grep", "pattern", "path"),
    tool("Read", "file_path"),
]


class Agent:
    """A client of the wire of Anthropic that keeps its own history, as Claude Code does."""

    def __init__(
        self, url: str, headers: Mapping[str, str] = HEADERS, model: str = "claude-opus-4-7"
    ) -> None:
        self.url, self.headers, self.model = url, dict(headers), model
        self.history: list[dict[str, Any]] = []
        self.tools = list(TOOLS)
        self.conversation = ""
        self.received: dict[str, str] = {}
        """Headers of the last reply."""
        self.system = _SYSTEM

    def send(self) -> Any:
        body = {
            "model": self.model,
            "max_tokens": 4000,
            "stream": True,
            "thinking": {"type": "adaptive"},
            "system": [{"type": "text", "text": self.system, "cache_control": {"type": "ephemeral"}}],
            "tools": self.tools,
            "messages": [*self.history[:-1], _marked(self.history[-1])],
        }
        host = self.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=30)
        try:
            connection.request("POST", "/v1/messages", json.dumps(body), self.headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        self.received = dict(answer.headers)
        self.conversation = answer.headers.get("x-segue-conversation") or self.conversation
        assert answer.status == 200, data
        return _folded(data)

    def turn(self, text: str, *, interrupt: str = "") -> str:
        """`interrupt`: the tool whose result never comes, with which the turn ends."""
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}]})
        while True:
            content = self.send()
            self.history.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": _RESULTS[call["name"]]}
                for call in calls
            ]
            interrupted = any(call["name"] == interrupt for call in calls)
            if results and not interrupted:
                self.history.append({"role": "user", "content": results})
            if not calls or interrupted:
                return "".join(block["text"] for block in content if block["type"] == "text")


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    *head, last = message["content"]
    return {**message, "content": [*head, {**last, "cache_control": {"type": "ephemeral"}}]}


def _folded(stream: bytes) -> list[dict[str, Any]]:
    """The content of a streamed reply."""
    blocks: list[dict[str, Any]] = []
    texts: dict[int, str] = {}
    for line in stream.decode().splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line[6:])
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            match delta["type"]:
                case "text_delta":
                    block["text"] += delta["text"]
                case "thinking_delta":
                    block["thinking"] += delta["thinking"]
                case "signature_delta":
                    block["signature"] = delta["signature"]
                case "input_json_delta":
                    texts[event["index"]] = texts.get(event["index"], "") + delta["partial_json"]
    for place, text in texts.items():
        blocks[place]["input"] = json.loads(text or "{}")
    return blocks


class Stage:
    """What runs, and how to reach it."""

    def __init__(
        self, gateway: Gateway, inspector: Inspector, emulator: Emulator, url: str, loop: Any
    ) -> None:
        self.gateway, self.inspector, self.emulator, self.url = gateway, inspector, emulator, url
        self.loop = loop

    @property
    def page(self) -> str:
        return f"{self.url}/segue/inspector"

    def login_url(self) -> str:
        return f"{self.page}/login#t={new_token(KEY)}"

    def run(self, work: Any) -> Any:
        """In the loop of the gateway."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """A request with exactly these headers, as any program may send it."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=20)
        try:
            data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, dict(headers or {}))
            answer = connection.getresponse()
            return (
                answer.status,
                {name.lower(): value for name, value in answer.headers.items()},
                answer.read(),
            )
        finally:
            connection.close()

    def browser_session(self) -> Session:
        return Session(self)


class Session:
    """Somebody who is logged in, without a browser: the headers that a browser would send."""

    def __init__(self, stage: Stage, *, token: str = "", key: str = "") -> None:
        self.stage = stage
        given = {"key": key} if key else {"token": token or new_token(KEY)}
        status, headers, body = stage.ask("/segue/inspector/login", "POST", given, SAME_ORIGIN)
        assert status == 200, body
        self.cookie = headers["set-cookie"].partition(";")[0]
        page = self.get("/", accept="text/html")[2].decode()
        self.token = page.partition('name="segue-token" content="')[2].partition('"')[0]

    def get(self, path: str, accept: str = "text/html") -> tuple[int, Mapping[str, str], bytes]:
        return self.stage.ask(
            f"/segue/inspector{path}", "GET", None, {"cookie": self.cookie, "accept": accept}
        )

    def json(self, path: str) -> Any:
        status, _, body = self.get(path, "application/json")
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        sent = {**SAME_ORIGIN, "cookie": self.cookie, "x-segue-token": self.token}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        status, _, data = self.stage.ask(f"/segue/inspector{path}", "POST", body, sent)
        return status, json.loads(data or b"{}")


SAME_ORIGIN = {
    "content-type": "application/json",
    "sec-fetch-site": "same-origin",
    "accept": "application/json",
}


@contextmanager
def inspected_gateway(
    *,
    responder: Any = None,
    callers: Any = None,
    port: int = 0,
    content_file: Path | None = None,
    sessions: Path | None = None,
    **inspect: Any,
) -> Iterator[Stage]:
    """`content_file`: where what is said is stored. `sessions`: the folder of those of the chat. `inspect`: settings of the inspector."""
    emulator = Emulator(strict=True, responder=responder or StoryModel(), log_size=1000)
    configs = {
        name: ProviderConfig(
            base_url=f"http://emulator/{name}{_PATHS.get(name, '')}", api_key=Secret("sk-emulated-key-0")
        )
        for name in ("openai", "anthropic", "gemini", "mistral", "kimi", "ollama")
    }
    providers = default_registry(configs, environ={}, transport=AsgiTransport(App(emulator)), keyring=False)
    settings = InspectSettings(**inspect)
    config = Config(
        aliases={"gpt": GPT, "kimi": KIMI, "flash": GEMINI},
        profiles={
            "team": ProfileSettings(
                members=[OPUS, MISTRAL], policy="failover", retry=RetrySettings(attempts=2, first_pause=0.01)
            )
        },
        gateway=GatewaySettings(models={"claude-*": "team"}, inspect=settings, callers=callers or {}),
        sessions=SessionSettings(directory=str(sessions or "")),
    )
    started, ready = threading.Event(), dict[str, Any]()

    async def serve() -> None:
        memory = Memory(SQLiteMemoryStore(max_bytes=1 << 26, max_records=10_000, keep_seconds=3600), KEY)
        file = None
        if content_file is not None:
            file = ContentFile(content_file, KEY, keep_seconds=3600, max_bytes=1 << 26)
        inspector = Inspector(settings, KEY, content_file=file)
        accounts = Accounts(SQLiteAccountStore(), config.gateway.callers, config.gateway.accounts)
        gateway = Gateway(config, providers, memory, accounts=accounts, watcher=inspector)
        server = uvicorn.Server(
            uvicorn.Config(
                gateway,
                host="127.0.0.1",
                port=port,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
            )
        )
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        bound = server.servers[0].sockets[0].getsockname()[1]
        ready.update(
            gateway=gateway, inspector=inspector, server=server, port=bound, loop=asyncio.get_running_loop()
        )
        started.set()
        await running
        await gateway.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(20)
    stage = Stage(
        ready["gateway"], ready["inspector"], emulator, f"http://127.0.0.1:{ready['port']}", ready["loop"]
    )
    try:
        yield stage
    finally:
        ready["inspector"]._closing.set()
        ready["server"].should_exit = True
        thread.join(20)


def tell_story(stage: Stage) -> Agent:
    """Six turns. Returns the agent at its end."""
    agent = Agent(stage.url)
    session = stage.browser_session()

    def switch(model: str) -> None:
        status, said = session.post("/api/switch", {"conversation": agent.conversation, "model": model})
        assert status == 200, said

    agent.turn(TURNS[0])
    agent.turn(TURNS[1])
    switch(GEMINI)
    agent.turn(TURNS[2], interrupt="Bash")
    switch("")
    for _ in range(2):
        stage.emulator.faults.append(Fault(status=529, retry_after=None, provider="anthropic"))
    agent.turn(TURNS[3])
    switch(OPUS)
    agent.turn(TURNS[4])
    agent.tools = [*TOOLS[:2], tool("mcp__linear__create_issue", "title"), *TOOLS[2:]]
    agent.turn(TURNS[5])
    return agent
