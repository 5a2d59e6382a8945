"""Sends the probes to a provider and to the emulator of its wire, puts both answers side by side, and reports them in
a file without content or keys, which can be attached to an issue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue import __version__
from segue.conversation.blocks import ToolResult
from segue.conversation.message import Conversation, Message
from segue.conversation.usage import Usage
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.errors import ProviderError, SegueError
from segue.providers.adapter import ChatRequest, RequestSent, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses
from segue.providers.models.cards import default_model
from segue.providers.models.prices import CATALOG_PRICES, Bill, cost_of
from segue.providers.token_counts import estimate_request, family_of
from segue.text.redaction import redact_text
from segue.transports.asgi import AsgiTransport
from segue.verify.broken_requests import MOST_CHANGES, BrokenRequest, changes_of, known_violations
from segue.verify.probes import probes

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Reply
    from segue.providers.endpoint import Endpoint
    from segue.providers.provider import Provider
    from segue.verify.probes import Probe


_PATHS: Final = {
    "openai_chat": "openai/v1",
    "openai_responses": "openai/v1",
    "anthropic": "anthropic",
    "gemini": "gemini/v1beta",
    "mistral": "mistral/v1",
    "kimi": "kimi/v1",
    "deepseek": "deepseek",
    "ollama": "ollama",
    "converse": "bedrock",
}
"""Where each wire is mounted in the emulators."""
_VERTEX: Final = "vertex/v1/projects/p/locations/global/publishers"
_CLOUDS: Final = {
    "azure-openai": "azure/openai/v1",
    "azure-anthropic": "azure/anthropic",
    "vertex": f"{_VERTEX}/google",
    "vertex-anthropic": f"{_VERTEX}/anthropic",
    "bedrock": "bedrock",
    "bedrock-invoke": "bedrock",
    "bedrock-mantle": "bedrock-mantle",
    "claude-aws": "claude-aws",
}
"""Clouds that serve a wire with rules of their own."""


def has_emulator(dialect: str) -> bool:
    return dialect in _PATHS


def is_cloud(provider: str) -> bool:
    return provider in _CLOUDS


def emulated_provider(dialect: str, *, strict: bool = False, cloud: str = "") -> tuple[Provider, Emulator]:
    """A provider that speaks this dialect with its emulator, and the emulator: that of a cloud, or of the wire's home."""
    emulator = Emulator(strict=strict)
    homes = addresses().providers.items()
    home = cloud or next(name for name, address in homes if dialect in address.dialects)
    path = _CLOUDS.get(cloud) or _PATHS[dialect]
    config = ProviderConfig(base_url=f"http://emulator.invalid/{path}", workspace="emulated")
    transport = AsgiTransport(App(emulator))
    return connect(home, config, api_key="emulated", environ={}, transport=transport, keyring=False), emulator


Verdict: TypeAlias = Literal["accepted", "refused", "failed", "none"]
"""`failed`: no answer about the request itself (key, quota, network). `none`: nobody was asked."""


@final
class Answered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one side did with a request."""

    verdict: Verdict
    status: int | None = None
    rule: str = ""
    """Of the emulator."""
    words: str = ""
    """Of the provider, redacted."""


@final
class Verified(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request, and what the provider and the emulator did with it."""

    probe: str
    provider: Answered
    emulator: Answered
    repairs: tuple[str, ...] = ()
    """Kinds of what was repaired to make it."""

    @property
    def differs(self) -> bool:
        both = {self.provider.verdict, self.emulator.verdict}
        return both == {"accepted", "refused"}


@final
class VerifyReport(Struct, frozen=True, kw_only=True):
    """All requests of one verification."""

    version: str
    provider: str
    model: str
    dialect: str
    emulated_model: str
    results: tuple[Verified, ...]
    rules: tuple[Verified, ...] = ()
    """Requests that the emulator refuses."""
    cost: float | None = None
    complete: bool = True
    """False if it was stopped: by a failure or by the limit of cost."""

    @property
    def findings(self) -> tuple[Verified, ...]:
        """What was refused though it was sent as we send it, and where the emulator is wrong."""
        refused = tuple(one for one in self.results if one.provider.verdict == "refused" or one.differs)
        return (*refused, *(one for one in self.rules if one.differs))

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


_NOT_ABOUT_THE_REQUEST = (401, 402, 403, 408, 429)
_MOST_WORDS = 400
NOBODY = Answered(verdict="none")


@final
class Estimate(Struct, frozen=True):
    """What a verification sends, before anything is sent."""

    requests: int
    input_tokens: int
    output_tokens: int
    """At most."""
    cost: float | None
    """Dollars; None if the price is unknown."""


def estimate(provider: str, model: str) -> Estimate:
    """Of the probes; requests that are refused cost nothing."""
    requests = inputs = outputs = 0
    for probe in probes():
        rounds = 2 if probe.then else 1
        request = ChatRequest(model=model, conversation=probe.conversation, tools=probe.tools)
        requests += rounds
        inputs += rounds * estimate_request(request, family_of(model))
        outputs += rounds * (probe.options.max_tokens or 0)
    return Estimate(requests, inputs, outputs, cost_of(Usage(inputs, outputs), provider, model))


@final
class Verification:
    """One provider and one model. `on_result` gets every result as it comes."""

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        max_cost: float | None = None,
        on_result: Callable[[Verified], None] = lambda _: None,
    ) -> None:
        endpoint, _, name = provider.endpoint_of(model)
        self._provider = provider
        self._model = name
        self._dialect = endpoint.dialect.name
        self._max_cost = max_cost
        self._report_result = on_result
        self._bill = Bill()
        self._emulated: tuple[Provider, Emulator] | None = None
        known = provider.address.paths_of if provider.address is not None else ""
        self._cloud = known if is_cloud(known) else ""
        if self._cloud or has_emulator(self._dialect):
            self._emulated = emulated_provider(self._dialect, cloud=self._cloud)
        self._emulated_model = name

    async def run(self, *, rules: bool = False) -> VerifyReport:
        """All probes; with `rules` also what the emulator refuses."""
        results: list[Verified] = []
        await self._choose_emulated_model()
        for probe in probes():
            if self._too_expensive or (results and results[-1].provider.verdict == "failed"):
                break
            results.append(await self._verify(probe))
            self._report_result(results[-1])
        stopped = len(results) < len(probes()) or results[-1].provider.verdict == "failed"
        broken = await self._verify_rules() if rules and not stopped else []
        return VerifyReport(
            version=__version__,
            provider=self._provider.name,
            model=self._model,
            dialect=self._dialect,
            emulated_model=self._emulated_model if self._emulated is not None else "",
            results=tuple(results),
            rules=tuple(broken),
            cost=self._bill.cost,
            complete=not stopped and not self._too_expensive,
        )

    @property
    def _too_expensive(self) -> bool:
        return self._max_cost is not None and self._bill.at_least > self._max_cost

    async def _choose_emulated_model(self) -> None:
        if self._emulated is None:
            return
        plain = probes()[0]
        request = ChatRequest(model=self._model, conversation=plain.conversation, options=plain.options)
        answered, _, _ = await _send(self._emulated[0], request)
        if answered.verdict != "accepted":
            # The emulator does not know this model: it is asked for the usual one of the wire.
            self._emulated_model = default_model(self._dialect) or self._model

    async def _verify(self, probe: Probe) -> Verified:
        answered, repairs = await self._play(self._provider, self._model, probe, paid=True)
        emulated = NOBODY
        if self._emulated is not None:
            provider, emulator = self._emulated
            emulated, _ = await self._play(provider, self._emulated_model, probe, paid=False)
            if emulated.verdict == "refused":
                emulated = msgspec.structs.replace(emulated, rule=emulator.log[-1].rule or "")
        return Verified(probe=probe.name, provider=answered, emulator=emulated, repairs=repairs)

    async def _play(
        self, provider: Provider, model: str, probe: Probe, *, paid: bool
    ) -> tuple[Answered, tuple[str, ...]]:
        conversation, repairs = probe.conversation, dict[str, None]()
        answered = NOBODY
        for more in ((), probe.then) if probe.then else ((),):
            conversation = conversation.append(*more)
            request = ChatRequest(
                model=model, conversation=conversation, tools=probe.tools, options=probe.options
            )
            answered, reply, sent = await _send(provider, request)
            repairs |= dict.fromkeys(sent)
            if reply is None:
                break
            if paid:
                CATALOG_PRICES.charge(self._bill, reply.usage, provider.name, model)
            conversation = _with_reply(conversation, reply.message)
        return answered, tuple(repairs)

    async def _verify_rules(self) -> list[Verified]:
        """One request per rule that the emulator enforces, also of the less certain ones."""
        if self._emulated is None:
            return []
        results: list[Verified] = []
        provider, emulator = emulated_provider(self._dialect, strict=True, cloud=self._cloud)
        known = await self._broken_requests(provider, emulator)
        endpoint, path, _ = self._provider.endpoint_of(self._model)
        for broken in known.values():
            if self._too_expensive:
                break
            model = broken.own_model or self._model
            body = _with_model(broken.body, model)
            answered = await _post(endpoint, path.replace(self._model, model), body, broken.headers)
            emulated = Answered(verdict="refused", rule=broken.rule)
            result = Verified(probe=f"{broken.rule}: {broken.change}", provider=answered, emulator=emulated)
            results.append(result)
            self._report_result(result)
        return results

    async def _broken_requests(self, provider: Provider, emulator: Emulator) -> dict[str, BrokenRequest]:
        found = await self._known_violations(provider, emulator)
        endpoint, path, _ = provider.endpoint_of(self._emulated_model)
        tried: set[bytes] = set()
        for probe in probes()[:6]:
            request = ChatRequest(
                model=self._emulated_model,
                conversation=probe.conversation,
                tools=probe.tools,
                options=probe.options,
            )
            for number, (change, body) in enumerate(changes_of(provider.preview(request).body)):
                if number >= MOST_CHANGES:
                    break
                if body in tried:
                    continue
                tried.add(body)
                if (await _post(endpoint, path, body)).verdict == "refused":
                    rule = emulator.log[-1].rule or ""
                    found.setdefault(rule, BrokenRequest(rule, change, body))
        found.pop("", None)
        return found

    async def _known_violations(self, provider: Provider, emulator: Emulator) -> dict[str, BrokenRequest]:
        """Those that hold for this model, or for another one of the same provider."""
        found: dict[str, BrokenRequest] = {}
        if self._cloud:  # they are written as the wire's home takes them
            return found
        endpoint, path, _ = provider.endpoint_of(self._emulated_model)
        at_home = provider.name == self._provider.name
        for rule, violation in known_violations(self._dialect).items():
            others = (violation.model,) if at_home and violation.model else ()
            for model in dict.fromkeys((self._emulated_model, *others)):
                body = _with_model(bytes(violation.body), model)
                place = path.replace(self._emulated_model, model)
                refused = (await _post(endpoint, place, body, violation.headers)).verdict == "refused"
                if refused and emulator.log[-1].rule == rule:
                    own = "" if model == self._emulated_model else model
                    what = f"with {own}" if own else "as in the tests of the emulator"
                    found[rule] = BrokenRequest(rule, what, body, violation.headers, own)
                    break
        return found


def _with_model(body: bytes, model: str) -> bytes:
    """The request for another model, if it names one."""
    whole = msgspec.json.decode(body)
    if "model" in whole:
        whole["model"] = model
    return msgspec.json.encode(whole)


async def _send(provider: Provider, request: ChatRequest) -> tuple[Answered, Reply | None, tuple[str, ...]]:
    """What came of a request; the reply, None if it failed; and what was repaired."""
    events = [event async for event in provider.chat_stream(request)]
    repairs = tuple(repair.kind for event in events if type(event) is RequestSent for repair in event.repairs)
    reply = fold_stream(events)
    if reply.error is not None:
        return _failure(reply.error), None, repairs
    return Answered(verdict="accepted", status=200), reply, repairs


async def _post(
    endpoint: Endpoint, path: str, body: bytes, headers: dict[str, str] | None = None
) -> Answered:
    try:
        async with endpoint.ask("POST", path, body, headers=headers) as answer:
            await answer.read()
            return Answered(verdict="accepted", status=answer.status)
    except SegueError as error:
        return _failure(error)


def _failure(error: SegueError) -> Answered:
    status = getattr(error, "status", None)
    refused = (
        isinstance(error, ProviderError)
        and status is not None
        and 400 <= status < 500
        and status not in _NOT_ABOUT_THE_REQUEST
    )
    words = redact_text(error.message)[:_MOST_WORDS]
    return Answered(verdict="refused" if refused else "failed", status=status, words=words)


def _with_reply(conversation: Conversation, message: Message) -> Conversation:
    """The conversation with a reply, and a result for each of its calls."""
    if not message.blocks:
        return conversation
    conversation = conversation.append(message)
    calls = conversation.messages[-1].calls
    if not calls:
        return conversation
    results = (ToolResult(call.id, call.name, "an animal", complete=True) for call in calls)
    return conversation.append(Message("tool", tuple(results)))
