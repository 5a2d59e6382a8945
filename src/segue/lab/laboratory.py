"""Plays all scenarios through one gateway: which trials there are, each at one door with one provider, or two, behind
it, every step judged, and what came of them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, structs

from segue.emulators.model.model_reply import Reply, Say, calls_of, text_of
from segue.lab import provider_view
from segue.lab.clients import PDF, PNG, Called, ClientAnswer, CountingClient, Given, NextRequest, UserWords
from segue.lab.scenario import Scenario
from segue.lab.stage import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from segue.lab.clients import LabClient
    from segue.lab.scenario import ScenarioStep
    from segue.lab.stage import ProviderExchange, Stage


_SECONDS = 20.0
_TRIES = 5
"""How often a gateway can ask for one answer."""
_COUNT_SLACK = 0.5
"""By which share an estimate of tokens may be wrong: clients decide by it when to shorten their history."""
_NOTICE_SECONDS = 5.0
"""Within which a provider has to notice that a client has gone."""
_MOST_WORDS = 600

Severity = Literal["broken", "lost"]


class GatewayUnderTest(Struct, frozen=True, kw_only=True):
    """A gateway: where it is, which wires it offers, and by which names it has the models of the providers."""

    name: str
    url: str
    key: str = "sk-lab"
    version: str = ""
    doors: Mapping[str, str]
    """Wire → what stands before the wire's own path."""
    models: Mapping[str, str]
    """Provider → the name that is asked for."""
    behind: Mapping[str, tuple[str, ...]] | None = None
    """Wire → the providers that this door reaches; None: all."""
    claims: frozenset[str] = frozenset()
    exceptions: Mapping[str, str] = {}
    """Scenario → why it is not judged."""


class Trial(Struct, frozen=True):
    """One scenario at one door: with these providers behind it, whole or streamed."""

    scenario: Scenario
    wire: str
    providers: tuple[str, ...]
    stream: bool

    @property
    def name(self) -> str:
        way = "streamed" if self.stream else "whole"
        return f"{self.scenario.name}, {self.wire} → {' → '.join(self.providers)}, {way}"


class TrialFinding(Struct, frozen=True, kw_only=True):
    """Something that does not hold, with all that is needed to see it again."""

    severity: Severity
    check: str
    says: str
    step: int
    request: Any = None
    """What the client sent."""
    seen: Any = None
    """What the provider saw; None if nothing reached it."""
    words: str = ""
    """The provider's."""
    reproduction: str = ""


class TrialOutcome(Struct, frozen=True):
    """What came of a trial."""

    trial: Trial
    findings: tuple[TrialFinding, ...]
    seconds: float


def play(trial: Trial, gateway: GatewayUnderTest, stage: Stage) -> TrialOutcome:
    started = time.monotonic()
    stage.clear()
    performance = _Performance(trial, gateway, stage)
    findings = tuple(performance.run())
    return TrialOutcome(trial, findings, time.monotonic() - started)


class _Performance:
    """One client and what is known of its conversation so far."""

    def __init__(self, trial: Trial, gateway: GatewayUnderTest, stage: Stage) -> None:
        self.trial, self.gateway, self.stage = trial, gateway, stage
        self.client: LabClient = CLIENTS[trial.wire]()
        self.facts: list[str] = []
        """Texts that every later request has to contain."""
        self.forgotten: list[str] = []
        """Texts that no later request may contain."""
        self.pairs: list[provider_view.Pair] = []
        self.ids: set[str] = set()
        self.counted = 0
        """Tokens of the request to come, as the gateway counted them."""
        self.sent: dict[str, Any] = {}

    def run(self) -> Iterator[TrialFinding]:
        for number, step in enumerate(self.trial.scenario.steps, 1):
            found = list(self._step(step, number))
            yield from found
            # After a failed step there is no reply to build on: whatever comes next would fail for the same reason.
            if any(finding.severity == "broken" for finding in found):
                return

    def _step(self, step: ScenarioStep, number: int) -> Iterator[TrialFinding]:
        stage = self.stage
        before = len(stage.exchanges)
        # A gateway may ask again: then the answer is the same, and a refusal stays one.
        stage.responder.add(*[step.reply] * _TRIES if step.reply else ())
        if step.fault is not None:
            stage.emulator.faults.extend([step.fault] * (_TRIES if step.demand.status else 1))
        self._write(step)
        if step.count:
            yield from self._count(step, number)
            return
        answer = self._send(step)
        reached = stage.exchanges[before:]
        for severity, check, says in self._judge(step, answer, reached):
            last = reached[-1] if reached else None
            yield TrialFinding(
                severity=severity,
                check=check,
                says=says[:_MOST_WORDS],
                step=number,
                request=self.sent,
                seen=last.body if last else None,
                words=next((one.refusal for one in reached if one.rule), ""),
                reproduction=self._reproduction(),
            )
        stage.responder.queue.clear()
        stage.emulator.faults.clear()
        if not answer.error and not step.leave and answer.finish:
            self._remember(step.reply, answer)
        elif self.client.history and not answer.error:
            self.client.take(answer)

    def _write(self, step: ScenarioStep) -> None:
        """Put the step's words and results into the client's history."""
        if step.forget:
            self.client.history, self.client.sent, self.client.last = [], 0, None
            self.forgotten, self.facts, self.pairs = self.facts, [], []
        if step.rename:
            _rename(self.client, step.rename)
        calls = self.client.last.calls if self.client.last else ()
        results = [Given(call, text, step.failed) for call, text in zip(calls, step.results, strict=False)]
        for given in results:
            call = given.call
            self.pairs.append(provider_view.Pair(call.name, json.loads(call.arguments or "{}"), given.text))
            self.facts.append(given.text)
        if results:
            self.client.give(results[::-1] if step.reverse else results)
        if step.say:
            words = (
                " ".join([step.say, *(f"word{number}" for number in range(2000))]) if step.long else step.say
            )
            self.client.say(
                UserWords(text=words, image=step.image, document=step.document, cached=step.cached)
            )
            self.facts.append(step.say)
        self.facts.extend(data for data, sent in ((PNG, step.image), (PDF, step.document)) if sent)

    def _remember(self, reply: Reply | None, answer: ClientAnswer) -> None:
        self.client.take(answer)
        self.ids.update(call.id for call in answer.calls)
        if reply is not None:
            self.facts.extend(piece.text for piece in reply.pieces if isinstance(piece, Say))

    def _request(self, step: ScenarioStep) -> NextRequest:
        scenario = self.trial.scenario
        provider = self.trial.providers[0 if step.model == "first" else -1]
        return NextRequest(
            model=self.gateway.models[provider],
            stream=self.trial.stream,
            tools=scenario.tools,
            thinking=scenario.thinking,
            schema=step.schema,
            refers=scenario.refers,
        )

    def _count(self, step: ScenarioStep, number: int) -> Iterator[TrialFinding]:
        """Ask for the number of tokens; the next reply shows whether it was right."""
        request, client = self._request(step), self.client
        if not isinstance(client, CountingClient):  # it is not played there
            return
        self.sent = json.loads(json.dumps(client.count_body(request)))
        self.path = self.gateway.doors[self.trial.wire] + client.count_path(request)
        headers = client.headers(self.gateway.key)
        try:
            status, _, raw = _post(self.gateway.url + self.path, headers, self.sent, leave=False)
            self.counted = client.read_count(json.loads(raw)) if status == 200 else 0
            says = "" if self.counted > 0 else f"status {status}: {raw[:200]!r}"
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            says = f"no count of this wire: {error!r}"
        if says:
            yield TrialFinding(
                severity="broken",
                check="count",
                says=says,
                step=number,
                request=self.sent,
                reproduction=self._reproduction(),
            )

    def _send(self, step: ScenarioStep) -> ClientAnswer:
        gateway, request = self.gateway, self._request(step)
        self.sent = json.loads(json.dumps(self.client.body(request)))
        self.path = gateway.doors[self.trial.wire] + self.client.path(request)
        headers = self.client.headers(gateway.key)
        try:
            status, kind, raw = _post(gateway.url + self.path, headers, self.sent, leave=step.leave)
        except (OSError, http.client.HTTPException) as error:
            return ClientAnswer(status=0, error=f"the connection broke: {error!r}")
        answer = self.client.decode(status, kind, raw)
        return structs.replace(answer, status=status)

    def _judge(
        self, step: ScenarioStep, answer: ClientAnswer, reached: list[ProviderExchange]
    ) -> Iterator[tuple[Severity, str, str]]:
        demand = step.demand
        for exchange in reached:
            if exchange.rule and not exchange.spoilt and not demand.status and exchange is reached[-1]:
                yield (
                    "broken",
                    "accepted",
                    f"{exchange.provider} refused it ({exchange.rule}): {exchange.refusal}",
                )
                return
        if step.leave:
            if demand.hung_up and not self._hung_up():
                yield (
                    "broken",
                    "hung up",
                    "the provider was never told that the client had gone, and would go on",
                )
            return
        if demand.status:
            yield from self._judge_error(step, answer)
            return
        if demand.broken_off and (answer.error or not answer.finish):
            return
        reported = answer.status >= 400 or (self.trial.stream and answer.error)
        if demand.repeated and reported and not answer.error.startswith("not "):
            return
        if answer.error or answer.status != 200:
            yield "broken", "answered", f"status {answer.status}: {answer.error or 'no reply'}"
            return
        if not answer.finish:
            yield "broken", "ended", "the reply has no end"
            return
        yield from self._judge_reply(step, answer)
        yield from self._judge_request(step, answer, reached)

    def _judge_error(self, step: ScenarioStep, answer: ClientAnswer) -> Iterator[tuple[Severity, str, str]]:
        # A stream that has begun can report an error only as an event.
        reported = self.trial.stream and answer.status == 200 and answer.error
        if answer.status not in step.demand.status and not reported:
            expected = " or ".join(map(str, step.demand.status))
            yield (
                "broken",
                "status",
                f"status {answer.status} instead of {expected}: {answer.error or answer.text}",
            )
        elif answer.error.startswith("not "):
            yield "broken", "envelope", answer.error
        elif step.demand.words.lower() not in answer.error.lower():
            yield "lost", "words", f"the provider's reason is gone: {answer.error}"

    def _judge_reply(self, step: ScenarioStep, answer: ClientAnswer) -> Iterator[tuple[Severity, str, str]]:
        if step.demand.json:
            try:
                fits = isinstance(json.loads(answer.text), dict)
            except ValueError:
                fits = False
            if not fits:
                yield "broken", "schema", f"no JSON object: {answer.text!r}"
            return
        if step.reply is None:
            return
        if answer.text != text_of(step.reply):
            yield "broken", "text", f"the model wrote {text_of(step.reply)!r}, the client got {answer.text!r}"
        made = [(call.name, dict(call.arguments)) for call in calls_of(step.reply)]
        got = [(call.name, json.loads(call.arguments or "{}")) for call in answer.calls]
        if made != got:
            yield "broken", "calls", f"the model called {made}, the client got {got}"
        ids = [call.id for call in answer.calls if call.id or self.trial.wire != "gemini"]
        if len({*ids}) < len(ids) or not all(ids) or self.ids & {*ids}:
            yield "broken", "ids", f"ids of calls are empty or repeated: {ids}"

    def _judge_request(
        self, step: ScenarioStep, answer: ClientAnswer, reached: list[ProviderExchange]
    ) -> Iterator[tuple[Severity, str, str]]:
        if not reached:
            yield "broken", "asked", "a reply came, but no provider was asked"
            return
        last = reached[-1]
        earlier = [one for one in self.stage.exchanges if one.provider == last.provider and one is not last]
        wanted = self.trial.providers[0 if step.model == "first" else -1]
        if last.provider != wanted:
            yield "broken", "provider", f"{last.provider} was asked instead of {wanted}"
            return
        held = (
            "".join(_plain(one.body) + one.answer.text for one in earlier)
            if provider_view.reference_of(last.body)
            else ""
        )
        text_of_request = _plain(last.body) + held
        missing = [fact for fact in self.facts if _plain_text(fact) not in text_of_request]
        if missing:
            yield "broken", "kept", f"the provider did not get {missing}"
        back = [text for text in self.forgotten if _plain_text(text) in text_of_request]
        if back:
            yield "broken", "forgotten", f"the client had dropped {back}, and the provider got it"
        if not held:
            yield from self._judge_pairs(last)
        same_model = [one for one in earlier if one.body.get("model") == last.body.get("model")]
        if step.demand.seals:
            issued = frozenset[bytes]().union(*(one.issued for one in same_model if one.status == 200))
            lost = [seal for seal in issued if seal not in last.raw and not held]
            if lost:
                yield (
                    "lost",
                    "seals",
                    f"{len(lost)} of {len(issued)} signatures of {last.provider} did not come back",
                )
        if step.demand.prefix and same_model and not held:
            yield from self._judge_prefix(same_model[-1], last)
        if (
            step.demand.cache_marks
            and last.wire == self.trial.wire
            and not provider_view.has_cache_mark(last.body)
        ):
            yield "lost", "cache marks", "the client marked what to cache, and the provider was not told"
        real = last.answer.usage
        if self.counted and real is not None and abs(self.counted - real.input) > _COUNT_SLACK * real.input:
            yield (
                "broken",
                "count",
                f"{self.counted} tokens were counted before, the provider counts {real.input}",
            )
        self.counted = 0
        if step.demand.usage and answer.usage != last.answer.usage:
            yield (
                "broken",
                "usage",
                f"the provider counted {last.answer.usage}, the client was told {answer.usage}",
            )

    def _judge_pairs(self, last: ProviderExchange) -> Iterator[tuple[Severity, str, str]]:
        seen = provider_view.pairs_of(last.wire, last.body)
        for pair in self.pairs:
            if not any(
                one.name == pair.name and one.arguments == pair.arguments and pair.result in one.result
                for one in seen
            ):
                yield (
                    "broken",
                    "pairs",
                    f"the result {pair.result!r} does not stand under {pair.name}({pair.arguments})",
                )
                return

    def _judge_prefix(
        self, before: ProviderExchange, last: ProviderExchange
    ) -> Iterator[tuple[Severity, str, str]]:
        if before.wire != last.wire:
            yield "lost", "prefix", f"the wire changed from {before.wire} to {last.wire}"
            return
        old = provider_view.as_cached(provider_view.messages_of(before.wire, before.body))
        new = provider_view.as_cached(provider_view.messages_of(last.wire, last.body))
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            if one != other:
                yield "lost", "prefix", f"message {number} changed from one request to the next"
                return

    def _hung_up(self) -> bool:
        deadline = time.monotonic() + _NOTICE_SECONDS
        while time.monotonic() < deadline:
            if self.stage.emulator.hung_up:
                return True
            time.sleep(0.05)
        return False

    def _reproduction(self) -> str:
        headers = self.client.headers("$KEY")
        words = " ".join(f"-H '{name}: {value}'" for name, value in headers.items())
        body = json.dumps(self.sent, ensure_ascii=False).replace("'", "'\\''")
        return f"curl -sN {words} '{self.gateway.url}{self.path}' -d '{body}'".replace("'$KEY'", '"$KEY"')


def _plain(body: Any) -> str:
    """All texts of a request, each as it is, whatever JSON inside of JSON it stands in."""
    texts: list[str] = []
    _collect(body, texts)
    return _plain_text("".join(texts))


def _plain_text(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"')


def _collect(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, texts)
    elif isinstance(value, list):
        for item in value:
            _collect(item, texts)


def _rename(client: LabClient, how: str) -> None:
    """Ids as another program, or another provider, would have given them; in the history and in the last reply alike."""
    if client.last is None or not client.last.calls:
        return
    new = {
        call.id: "functions.lookup:0" if how == "same" else f"functions.{call.name}:{number}"
        for number, call in enumerate(client.last.calls)
        if call.id
    }
    text = json.dumps(client.history)
    for old, name in new.items():
        text = text.replace(json.dumps(old), json.dumps(name))
    client.history = json.loads(text)
    calls = tuple(Called(new.get(call.id, call.id), call.name, call.arguments) for call in client.last.calls)
    client.last = ClientAnswer(calls=calls, native=client.last.native)


def _post(url: str, headers: Mapping[str, str], body: Any, *, leave: bool) -> tuple[int, str, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, json.dumps(body).encode(), dict(headers))
        response = connection.getresponse()
        kind = response.headers.get("content-type", "")
        if leave:
            response.read1(64)
            return response.status, kind, b""
        try:
            raw = response.read()
        except http.client.IncompleteRead as error:
            raw = error.partial
        return response.status, kind, raw
    finally:
        connection.close()


class ScenarioResult(Struct, frozen=True, kw_only=True):
    """One scenario through one gateway."""

    scenario: Scenario
    outcomes: tuple[TrialOutcome, ...] = ()
    not_offered: str = ""
    """Why it was not played."""

    @property
    def verdict(self) -> str:
        """`holds`, `loses` (accepted and answered, but something is gone), `fails`, or `not offered`."""
        if not self.outcomes:
            return "not offered"
        severities = {finding.severity for outcome in self.outcomes for finding in outcome.findings}
        return "fails" if "broken" in severities else "loses" if "lost" in severities else "holds"

    @property
    def held(self) -> int:
        return sum(1 for outcome in self.outcomes if not outcome.findings)


class LabRun(Struct, frozen=True, kw_only=True):
    """All scenarios through one gateway, on one day."""

    gateway: str
    version: str
    date: str
    segue: str
    """The version of the lab."""
    results: tuple[ScenarioResult, ...]


def check(
    gateway: GatewayUnderTest,
    stage: Stage,
    scenarios: Iterable[Scenario],
    *,
    on_result: Callable[[ScenarioResult], None] = lambda _: None,
) -> tuple[ScenarioResult, ...]:
    results = []
    for scenario in scenarios:
        result = _play(scenario, gateway, stage)
        on_result(result)
        results.append(result)
    return tuple(results)


def _play(scenario: Scenario, gateway: GatewayUnderTest, stage: Stage) -> ScenarioResult:
    reason = _reason_against(scenario, gateway)
    if reason:
        return ScenarioResult(scenario=scenario, not_offered=reason)
    outcomes = tuple(play(trial, gateway, stage) for trial in trials(scenario, gateway))
    why = "" if outcomes else "the gateway has no door and model for it"
    return ScenarioResult(scenario=scenario, outcomes=outcomes, not_offered=why)


def _reason_against(scenario: Scenario, gateway: GatewayUnderTest) -> str:
    if scenario.name in gateway.exceptions:
        return gateway.exceptions[scenario.name]
    if scenario.claim and scenario.claim not in gateway.claims:
        return f"the gateway does not claim it ({scenario.claim})"
    return ""


def trials(scenario: Scenario, gateway: GatewayUnderTest) -> Iterator[Trial]:
    """Every door × every provider, or ordered pair of them, behind that door × whole and streamed."""
    counts = any(step.count for step in scenario.steps)
    for wire in scenario.wires:
        if wire not in gateway.doors or (counts and not issubclass(CLIENTS[wire], CountingClient)):
            continue
        reached = gateway.models if gateway.behind is None else gateway.behind.get(wire, ())
        providers = [name for name in scenario.providers if name in reached and name in gateway.models]
        for chosen in permutations(providers, 2 if scenario.two_models else 1):
            for stream in scenario.streams:
                yield Trial(scenario, wire, chosen, stream)
