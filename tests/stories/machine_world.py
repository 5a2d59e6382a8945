"""The world a machine lives in: every wire at a strict emulator in this process, a model that follows a plan, tools
that remember what they did, and judges that read the request that would come next."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from segue.chat.chat import Chat
from segue.chat.subagent import subagent_tool
from segue.conversation.blocks import ToolCall
from segue.conversation.message import user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.emulators import faults
from segue.emulators.app import App
from segue.emulators.emulator import Emulator, Entry
from segue.emulators.http import Request
from segue.emulators.model import model_reply
from segue.events import Decision
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.routing.balancer import Failover, RoundRobin
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import facts_from, parse_route
from segue.routing.router import SingleRouter
from segue.sessions.stores.store import Store
from segue.tools.approval import Approval
from segue.tools.definition import Context, Tool
from segue.transports.asgi import AsgiTransport
from stories.machine_plans import Act, Fault, Reply, Silence, Words

PATHS: Final = {
    "openai": "/openai/v1",
    "anthropic": "/anthropic",
    "gemini": "/gemini/v1beta",
    "mistral": "/mistral/v1",
    "kimi": "/kimi/v1",
    "deepseek": "/deepseek",
    "ollama": "/ollama",
}
SEVEN: Final = (
    "openai/gpt-4.1",
    "openai/gpt-5.5",
    "anthropic/claude-sonnet-4-6",
    "gemini/gemini-3.5-flash",
    "mistral/mistral-large-latest",
    "kimi/kimi-k2.6",
    "ollama/qwen3",
)
IN_WORDS: Final = "ollama/gemma3:4b"
"""It knows no tools, so they and its calls are put into words."""
SINGLE: Final = (*SEVEN, "deepseek/deepseek-v4-flash", IN_WORDS)
TARGETS: Final = (*SINGLE, "narrow", "in turns", "in need")
"""Where a chat may go: single models, one with a small window, all of them in turns, one after another in need."""
OTHERS: Final = (
    "openai/gpt-4o",
    "openai/o4-mini",
    "openai/gpt-6-astra",
    "anthropic/claude-haiku-4-5",
    "anthropic/claude-opus-4-5",
    "anthropic/claude-3-5-haiku-latest",
    "gemini/gemini-2.5-flash",
    "mistral/magistral-medium-latest",
    "kimi/kimi-k2-thinking",
    "kimi/moonshot-v1-128k",
    "deepseek/deepseek-reasoner",
    "ollama/gpt-oss:20b",
    "ollama/llama3.2",
)
"""Models of the same wires that obey other rules."""
TOO_LONG: Final = {
    "openai/gpt-4.1": "This model's maximum context length is 9 tokens. However, your messages resulted in 10 tokens.",
    "openai/gpt-5.5": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "mistral": "Prompt contains 150000 tokens, too large for model with 131072 maximum context length",
    "kimi": "Invalid request: Your request exceeded model token limit: 262144",
    "deepseek": "This model's maximum context length is 9 tokens. However, you requested 10 tokens.",
    "ollama": "the input length exceeds the context length",
}
WORD: Final = re.compile(r"(?:asked|said|found)\d{4,}")
"""Every message and every result holds one of its own, so it can be told what is there and what is lost."""
PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
_PATIENT: Final = RetrySettings(attempts=2, first_pause=0.0)
_NEVER: Final = 60.0


class Model:
    """The responder behind every emulator: says what the plan has next, then something short."""

    def __init__(self, words: Callable[[str], str]) -> None:
        self.plan: deque[Reply] = deque()
        self.judged = False
        self._word = words

    def reset(self) -> None:
        self.plan.clear()

    def reply(self, prompt: model_reply.Prompt) -> model_reply.Reply:
        if self.judged:
            return model_reply.Reply(pieces=(model_reply.Say("Accepted."),))
        in_words = prompt.model.startswith("gemma3")
        if not prompt.tools and not in_words:
            return model_reply.Reply(pieces=(model_reply.Say("In short: much was done."),))
        reply = self.plan.popleft() if self.plan else Words()
        thoughts = (
            [model_reply.Think("Let me think about that.")] if prompt.thinking and _thinks(reply) else []
        )
        if isinstance(reply, Silence):
            return model_reply.Reply()
        if isinstance(reply, Words):
            told = model_reply.Say(f"{self._word('said')} is my answer. " * reply.portions)
            said = model_reply.Say(f"Final Answer: {told.text}") if in_words else told
            return model_reply.Reply(pieces=(*thoughts, said), finish=reply.finish)
        calls = [_call(act) for act in reply.acts[: None if prompt.parallel else 1]]
        said = model_reply.Say(f"{self._word('said')} is what I will do.")
        if in_words:
            action = f"Thought: {said.text}\nAction: {calls[0].name}\nAction Input: {json.dumps(calls[0].arguments)}"
            return model_reply.Reply(pieces=(model_reply.Say(action),))
        return model_reply.Reply(
            pieces=(*thoughts, *([said] if reply.words else ()), *calls), finish=reply.finish
        )


def _thinks(reply: Reply) -> bool:
    return not isinstance(reply, Silence) and reply.thinks


def _call(act: Act) -> model_reply.Call:
    match act:
        case "nowhere":
            return model_reply.Call("nowhere", {"do": "ok"})
        case "wrong":
            return model_reply.Call("act", {"do": 7})
        case "approved" | "denied" | "unanswered":
            return model_reply.Call("edit", {"do": act, "path": "notes.txt"})
        case "delegated":
            return model_reply.Call("delegate", {"task": "Do it."})
        case "late":
            return model_reply.Call("hurry", {"do": "late"})
        case _:
            return model_reply.Call("act", {"do": act})


class Deeds:
    """What tools did, as the world outside remembers it."""

    def __init__(self) -> None:
        self.begun: Counter[tuple[str, str]] = Counter()
        self.found: dict[tuple[str, str], str] = {}
        """The word that a tool answered with, by session and call."""

    def copy(self) -> Deeds:
        copied = Deeds()
        copied.begun, copied.found = Counter(self.begun), dict(self.found)
        return copied


class World:
    """One emulated world, made anew for every example."""

    def __init__(self, *, words: int = 0, on_deed: Callable[[str, str], None] | None = None) -> None:
        """`words`: how many were used before. `on_deed`: hears of each call that does something, while it does."""
        self._words = words
        self._on_deed = on_deed
        self.model = Model(self.word)
        self.emulator = Emulator(strict=True, responder=self.model, log_size=1_000_000)
        self.app = App(self.emulator)
        self.providers: dict[str, Provider] = {name: self._provider(name) for name in PATHS}
        self.deeds = Deeds()
        self.stop: Callable[[], object] = lambda: None
        """Cancels the turn, for calls that would wait for ever."""
        self._later: set[asyncio.Task[None]] = set()

    def word(self, kind: str) -> str:
        self._words += 1
        return f"{kind}{self._words:04d}"

    def _provider(self, name: str) -> Provider:
        config = ProviderConfig(
            base_url=f"http://emulated{PATHS[name]}", api_key=Secret("sk-emulated-0123456789")
        )
        return connect(name, config, environ={}, keyring=False, transport=AsgiTransport(self.app))

    def router(self, target: str) -> SingleRouter | RoundRobin | Failover:
        facts = facts_from(self.providers)
        if target in SINGLE:
            return SingleRouter(parse_route(target), facts, retry=_PATIENT)
        if target == "narrow":
            route = structs.replace(parse_route(SEVEN[4]), context=2500)
            return SingleRouter(route, facts, retry=_PATIENT)
        policy, members = ("round_robin", SEVEN) if target == "in turns" else ("failover", SEVEN[2:5])
        profile = Profile(name=target, policy=policy, members=members, retry=_PATIENT)  # type: ignore[arg-type]
        return build_router(profile, facts)  # type: ignore[return-value]

    def chat(self, target: str, store: Store, session: str, **settings: Any) -> Chat:
        return Chat(
            self.router(target),
            tools=self.tools(),
            providers=self.providers,
            store=store,
            session=session,
            approval=Approval("ask", allow=["act", "hurry"], ask=self._asked),
            **settings,
        )

    # What tools do

    def tools(self) -> list[Tool]:
        parameters = {
            "type": "object",
            "properties": {"do": {"type": "string"}, "path": {"type": "string"}},
            "required": ["do"],
        }

        def spec(name: str) -> ToolSpec:
            return ToolSpec(name, f"Does what it is told, as {name} does.", parameters)

        own = Tool(spec=spec("act"), run=self._act, timeout=_NEVER)
        return [
            own,
            Tool(spec=spec("hurry"), run=self._act, timeout=0.005),
            Tool(
                spec=spec("edit"), run=self._act, effect="edit", timeout=_NEVER,
                writes=lambda arguments: (arguments.get("path", ""),),
            ),
            subagent_tool("delegate", "Lets somebody else do it.", self.router(SEVEN[5]), tools=[own]),
        ]  # fmt: skip

    async def _act(self, arguments: dict[str, Any], context: Context) -> Any:
        place = context.session, context.call.id
        self.deeds.begun[place] += 1
        deeds, do = self.deeds, arguments["do"]
        await asyncio.sleep(0)
        if self._on_deed is not None:
            self._on_deed(*place)
        if do == "slow":
            await asyncio.sleep(0.005)
        if do == "hang":
            self._stop_soon()
        if do in ("hang", "late"):
            await asyncio.sleep(_NEVER)
        if do == "stubborn":
            self._stop_soon()
            try:
                await asyncio.sleep(_NEVER)
            except asyncio.CancelledError:
                await asyncio.sleep(0.001)
        if do == "nothing":
            return None
        word = deeds.found[place] = self.word("found")
        match do:
            case "raise":
                raise ValueError(f"{word} is wrong")
            case "json":
                return {"word": word, "list": [1, None, {"deep": True}]}
            case "huge":
                return f"{word} " + "and so on " * 300
            case "image":
                from base64 import b64decode

                return [word, b64decode(PIXEL)]
            case _:
                return f"{word} it is"

    async def _asked(self, call: ToolCall, tool: Tool) -> Decision:
        do = call.arguments["do"]
        if do == "unanswered":
            self._stop_soon()
            await asyncio.sleep(_NEVER)
        return "no" if do == "denied" else "once"

    def _stop_soon(self) -> None:
        """Let the others go on a little, then lose patience."""

        async def lose_patience() -> None:
            for _ in range(30):
                await asyncio.sleep(0)
            self.stop()

        task = asyncio.ensure_future(lose_patience())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def settle(self) -> None:
        if self._later:
            await asyncio.wait(self._later)

    # What goes wrong

    def spoil(self, planned: tuple[Fault, ...], route: str) -> None:
        self.emulator.faults.clear()
        for fault in planned:
            self.emulator.faults.append(self._fault(fault, route))

    @staticmethod
    def _fault(fault: Fault, route: str) -> faults.Fault:
        match fault.kind:
            case "status":
                return faults.Fault(status=fault.at, retry_after=None)
            case "too_long":
                message = TOO_LONG.get(route) or TOO_LONG.get(route.partition("/")[0], TOO_LONG["anthropic"])
                return faults.Fault(status=400, retry_after=None, message=message)
            case "silence":
                return faults.Fault(kind="silence", seconds=0.001)
            case kind:
                return faults.Fault(kind=kind, at_byte=fault.at, status=500, retry_after=None)  # type: ignore[arg-type]

    # What they were asked

    def asked(self, since: int = 0) -> list[Entry]:
        """Requests of the chat's own turns, without those for summaries and counts, and those of subagents."""
        return [entry for entry in list(self.emulator.log)[since:] if _offers(entry.body, "delegate")]

    def refusals(self) -> list[str]:
        return [
            f"{entry.provider} {entry.path}: {entry.rule} {entry.message}"
            for entry in self.emulator.log
            if entry.verdict == "refused"
        ]

    # What comes next

    def judge(self, chat: Chat, name: str) -> tuple[str, str]:
        """What a model would be asked if the user went on now, and what its provider has against it."""
        route = parse_route(name)
        provider = self.providers[route.provider]
        request = chat._session.request(route)
        request = structs.replace(request, conversation=request.conversation.append(user("And now?")))
        sent = provider.preview(request)
        path = sent.url.removeprefix("http://emulated")
        return sent.body.decode(), self._verdict(path, sent.body)

    def _verdict(self, url: str, body: bytes) -> str:
        emulator = self.emulator
        path, _, query = url.partition("?")
        waiting, emulator.faults = emulator.faults, deque()
        self.model.judged = True
        try:
            self.app.answer(
                Request(
                    method="POST",
                    path=path,
                    query=dict(pair.split("=") for pair in query.split("&") if pair),
                    headers={
                        "content-type": "application/json",
                        "authorization": "Bearer sk-emulated-0123456789",
                        "x-api-key": "sk-emulated-0123456789",
                        "x-goog-api-key": "sk-emulated-0123456789",
                        "anthropic-version": "2023-06-01",
                    },
                    body=body,
                )
            )
        finally:
            emulator.faults = waiting
            self.model.judged = False
        entry = emulator.log.pop()
        return "" if entry.verdict == "accepted" else f"{entry.status} {entry.rule} {entry.message}"


def wire_of(entry: Entry) -> str:
    """Who was asked, as `provider/model`."""
    model = entry.body.get("model") or entry.path.rpartition("/")[2].partition(":")[0]
    return f"{entry.provider}/{model}"


def _offers(body: Any, tool: str) -> bool:
    """Whether a request offers a tool, in its own place or in words."""
    if not isinstance(body, dict):
        return False
    told = body.get("tools") or [
        message for message in body.get("messages", ()) if message["role"] == "system"
    ]
    return f'"{tool}"' in json.dumps(told) or f"- {tool}: " in json.dumps(told)


SETTINGS: Final = (
    Options(effort="medium", max_tokens=4000),
    Options(),
    Options(effort="none"),
    Options(effort="high", max_tokens=8000),
    Options(temperature=0.3, parallel_calls=False),
    Options(max_tokens=16),
)
