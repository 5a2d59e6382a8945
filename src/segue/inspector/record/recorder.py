"""Records what the gateway does. On the way of a request it takes references only; cutting and comparing happen later, in a thread.

Everything is bounded: figures by their number, content by its bytes. When work piles up content is dropped, never figures.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from contextlib import suppress
from threading import RLock
from time import localtime, monotonic, strftime, time
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.conversation.message import Message
from segue.conversation.usage import NO_USAGE
from segue.errors import ProviderError, SegueError, status_of
from segue.exchange.attempt import Attempt
from segue.exchange.handovers import sum_of
from segue.gateway.conversations.turns import ClientTurn
from segue.gateway.telemetry.report import RequestReport
from segue.inspector.record.content_file import ContentFile, RequestOnDisk
from segue.inspector.record.pieces import KeptBody, kept
from segue.inspector.record.records import (
    AttemptRecord,
    ConversationRecord,
    DayFigures,
    RequestContent,
    RequestRecord,
)
from segue.text.redaction import known_secrets, redact_known, redact_text, secrets_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segue.conversation.usage import Usage
    from segue.gateway.telemetry.report import AttemptReport

_LATER: Final = 5.0
"""Seconds after which what was taken is worked on. A page that is made does not wait for that: it does the work itself."""
_BATCH: Final = 64
_BATCH_BYTES: Final = 8 << 20
"""When so much waits it is worked on at once. To hand one request to a thread costs as much as to record it."""
_SECRETS_SECONDS: Final = 10.0
"""After which the variables of the process are looked through again for keys."""
_MOST_WAITING: Final = 500
"""Requests whose content waits; beyond them only figures are taken."""
_MOST_WAITING_BYTES: Final = 32 << 20
_MOST_CONVERSATIONS: Final = 10_000
_MOST_UNCOUNTED: Final = 5000
_MOST_DAYS: Final = 10_000
_MOST_WORDS: Final = 2000
_MOST_LANES: Final = 32
_TURN_FACTOR: Final = 3
"""A conversation that is held as values takes about so many times its bytes."""
_LOG: Final = logging.getLogger("segue.inspector")


@final
class _Running(Struct):
    """A request on its way."""

    report: RequestReport
    turn: ClientTurn
    switched: str
    attempts: list[Attempt]


@final
class _Ended(Struct):
    """A request that has ended, with all that is to be recorded of it."""

    record: RequestRecord
    turn: ClientTurn | None = None
    client: bytes = b""
    provider: bytes = b""
    answer: Message | None = None


@final
class Recorder:
    """Of one process. Its methods may be called from any thread, but for those of the watcher."""

    def __init__(
        self,
        *,
        records_content: Callable[[], bool],
        max_bytes: int,
        max_requests: int,
        on_change: Callable[[str], object] = lambda _: None,
        file: ContentFile | None = None,
    ) -> None:
        """`records_content`: whether what is said now may be recorded. `file`: where it is stored, too. `on_change` gets the id of a conversation that something
        happened to, on the event loop."""
        self._records_content = records_content
        self._file = file
        self._is_loaded = file is None
        self.max_bytes = max_bytes
        self.dropped = 0
        """Requests whose content was not recorded because too many waited."""
        self.started = time()
        self.conversations: OrderedDict[str, ConversationRecord] = OrderedDict()
        """By id; the one used last is the last."""
        self.requests: OrderedDict[str, RequestRecord] = OrderedDict()
        self._by_hour: OrderedDict[int, int] = OrderedDict()
        self._uncounted: list[RequestRecord] = []
        self._days: dict[tuple[str, str], DayFigures] = {}
        """By day and caller."""
        self._max_requests = max_requests
        self._on_change = on_change
        self._running: dict[int, _Running] = {}
        self._by_conversation: dict[str, dict[int, _Running]] = {}
        self._waiting: deque[_Ended] = deque()
        self._taken_bytes = self._worked_bytes = 0
        """Of content, since the start: the event loop adds to the first, whoever works on it to the second."""
        self._planned = self._works = False
        self._later: asyncio.TimerHandle | None = None
        self._bodies = 0
        """Bytes of recorded bodies."""
        self._last: OrderedDict[tuple[str, str], tuple[KeptBody, bytes]] = OrderedDict()
        self._with_content: OrderedDict[str, ConversationRecord] = OrderedDict()
        """Those that have some; the one used last is the last."""
        self._found_secret = False
        self._values = 0
        """Bytes of conversations that are held as values."""
        self._secrets: list[bytes] = []
        """Values of keys, which are cut out of what is recorded."""
        self._secrets_of, self._secrets_at = -1, 0.0
        self.lock = RLock()

    @property
    def content(self) -> bool:
        """Whether what is said now is recorded."""
        return self._records_content()

    @property
    def held_bytes(self) -> int:
        """Of recorded content."""
        return self._bodies + self._values

    # What the gateway calls, on its event loop

    def began(self, report: RequestReport, turn: ClientTurn, switched: str) -> None:
        # Without the lock: a page that is made holds it, and a request waits for no page.
        self._running[id(report)] = running = _Running(report, turn, switched, [])
        self._by_conversation.setdefault(turn.conversation_id, {})[id(report)] = running
        self._on_change(turn.conversation_id)

    def asks(self, report: RequestReport, attempt: Attempt) -> None:
        running = self._running.get(id(report))
        if running is not None:
            running.attempts.append(attempt)

    def ended(self, report: RequestReport) -> None:
        running = self._running.pop(id(report), None)
        if running is not None:
            self._leave(running)
        elif not (report.error and report.wire):
            return
        ended = self._taken(report, running)
        self._waiting.append(ended)
        self._plan()
        if report.conversation:
            self._on_change(report.conversation)

    def _plan(self) -> None:
        full = (
            len(self._waiting) >= _BATCH or self._taken_bytes - self._worked_bytes >= _BATCH_BYTES
        ) and not self._works
        if self._planned and not full:
            return
        if self._later is not None:
            self._later.cancel()
        with suppress(RuntimeError):  # no loop runs: whoever reads does the work
            loop = asyncio.get_running_loop()
            self._planned = True
            self._later = loop.call_later(0.0 if full else _LATER, self._work)

    def _leave(self, running: _Running) -> None:
        name = running.turn.conversation_id
        others = self._by_conversation[name]
        del others[id(running.report)]
        if not others:
            del self._by_conversation[name]

    def _taken(self, report: RequestReport, running: _Running | None) -> _Ended:
        turn = running.turn if running is not None else None
        attempts = running.attempts if running is not None else []
        last, tried = attempts[-1] if attempts else None, tuple(_attempts_of(report, attempts))
        record = RequestRecord(
            id=report.request_id,
            conversation=report.conversation,
            caller=report.caller,
            began=report.began,
            seconds=report.seconds,
            first_content=_first_content(report, tried),
            ready=tried[0].after if tried else 0.0,
            client=report.client[:200],
            method=report.method,
            path=report.path[:200],
            wire=report.wire,
            asked=report.asked[:200],
            switched=running.switched if running is not None else "",
            route=report.route,
            dialect=last.origin.dialect if last is not None else "",
            status=report.status,
            stream=report.stream,
            forwarded=report.forwarded,
            begins_turn=turn is not None and not turn.continues,
            stays=bool(turn is not None and turn.bound),
            messages=len(report.messages),
            tools=len(turn.tools) if turn is not None else 0,
            restored=report.restored,
            missing=report.missing,
            request_bytes=report.request_bytes,
            reply_bytes=report.reply_bytes,
            usage=report.usage,
            usage_estimated=report.usage_estimated,
            dollars=report.dollars,
            repairs=tuple(getattr(last, "repairs", ())) if last is not None else (),
            attempts=tried,
            failovers=report.failovers,
            error=report.error,
            client_gone=report.client_gone,
            cache=report.cache,
            calls=len(report.answer.calls) if report.answer is not None else 0,
        )
        ended = _Ended(record)
        if turn is not None and self.content:
            ended.provider = last.wire_body if last is not None else b""
            size = len(turn.request.body) + len(ended.provider)
            waiting = self._taken_bytes - self._worked_bytes
            if len(self._waiting) < _MOST_WAITING and waiting + size <= _MOST_WAITING_BYTES:
                self._taken_bytes += size
                ended.turn, ended.client, ended.answer = turn, turn.request.body, report.answer
            else:
                self.dropped += 1
        return ended

    # What is done later

    def _work(self) -> None:
        self._planned, self._works = False, True
        with suppress(RuntimeError):  # the loop ends, and takes no more work
            asyncio.get_running_loop().run_in_executor(None, self.catch_up)

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._file is not None:
            self.catch_up()
            with self.lock:
                self._file.close()

    def catch_up(self) -> None:
        """Work on all that was taken so far."""
        with self.lock:
            self._works = False
            self._load()
            stored: list[RequestOnDisk] = []
            while self._waiting:
                ended = self._waiting.popleft()
                self._worked_bytes += len(ended.client) + (len(ended.provider) if ended.client else 0)
                try:
                    self._record(ended)
                    stored += self._to_store(ended)
                except Exception:
                    _LOG.exception("Request %s was not recorded.", ended.record.id)
            if self._file is not None and stored:
                self._file.add(stored)

    def _load(self) -> None:
        """What the file has of earlier, once."""
        if self._is_loaded or self._file is None:
            return
        self._is_loaded = True
        for one in self._file.load(self.max_bytes):
            provider = one.provider if one.provider is not None else one.client
            self._record(_Ended(one.record, client=one.client, provider=provider, answer=one.answer))
            known = self.conversations.get(one.record.conversation)
            if known is not None:
                known.first_words, known.workplace, known.has_words = one.title, one.folder, True

    def _to_store(self, ended: _Ended) -> Iterator[RequestOnDisk]:
        record, content = ended.record, ended.record.content
        known = self.conversations.get(record.conversation)
        if self._file is None or content is None or known is None:
            return
        own = content.provider if content.provider is not content.client else None
        yield RequestOnDisk(
            record=record,
            title=known.title,
            folder=known.folder,
            client=content.client.data(),
            provider=own.data() if own is not None else None,
            answer=content.answer,
        )

    def _record(self, ended: _Ended) -> None:
        record = ended.record
        self._count(record.began)
        self.requests[record.id] = record
        if len(self.requests) > self._max_requests:
            _, oldest = self.requests.popitem(last=False)
            self._forget_request(oldest)
        if not record.conversation:
            return
        self._uncounted.append(record)
        if len(self._uncounted) > _MOST_UNCOUNTED:
            self._count_days()
        known = self._conversation(record)
        before = known.requests[-1] if known.requests else None
        record.number = known.request_count = known.request_count + 1
        if record.begins_turn or not known.turns:
            known.turns += 1
            known.routes.append(record.route)
        elif record.route:
            known.routes[-1] = record.route
        known.several = known.several or known.routes[0] != record.route
        record.turn = known.turns
        known.requests.append(record)
        known.uncounted.append(record)
        self._keep_pieces(ended, known, before)
        if record.content is not None:
            self._keep_turn(known, ended)

    def _conversation(self, record: RequestRecord) -> ConversationRecord:
        known = self.conversations.get(record.conversation)
        if known is None or known.caller != record.caller:
            if known is not None:
                self._forget_content(known)
            known = ConversationRecord(
                id=record.conversation, caller=record.caller, client=record.client, created=record.began
            )
            self.conversations[record.conversation] = known
            if len(self.conversations) > _MOST_CONVERSATIONS:
                _, oldest = self.conversations.popitem(last=False)
                self._forget_content(oldest)
                for request in oldest.requests:
                    self._forget_request(request)
        self.conversations.move_to_end(record.conversation)
        known.wire, known.asked, known.client = record.wire, record.asked, record.client
        known.updated, known.switched = record.end, record.switched
        known.state = "failed" if record.error else "tools run" if record.calls else "idle"
        return known

    def _keep_pieces(self, ended: _Ended, known: ConversationRecord, before: RequestRecord | None) -> None:
        record = ended.record
        if not ended.client:
            return
        earlier = before.content.client if before is not None and before.content is not None else None
        client = self._kept(ended.client, earlier, (known.id, ""))
        provider = client if ended.provider is ended.client else None
        if provider is None and ended.provider:
            same = (one for one in reversed(known.requests) if one.route == record.route and one.content)
            last = next(same, None)
            was = last.content.provider if last is not None and last.content is not None else None
            provider = self._kept(ended.provider, was, (known.id, record.route))
        record.content = RequestContent(client=client, provider=provider, answer=ended.answer)

    def _kept(self, body: bytes, before: KeptBody | None, lane: tuple[str, str]) -> KeptBody:
        """The bytes of the last body of a lane are held for a while, so that they need not be put together again."""
        held = self._last.pop(lane, None)
        data = (
            held[1]
            if held is not None and held[0] is before
            else before.data()
            if before is not None
            else b""
        )
        self._found_secret = False
        made = kept(body, before, data, self._redacted)
        self._bodies += made.size
        if not self._found_secret:
            self._last[lane] = made, body
        while len(self._last) > _MOST_LANES:
            self._last.popitem(last=False)
        return made

    def _redacted(self, body: bytes) -> bytes:
        """Without the value of any key that is known: it is cut out before it is recorded."""
        revision, now = secrets_revision(), monotonic()
        if revision != self._secrets_of or now - self._secrets_at > _SECRETS_SECONDS:
            self._secrets = [secret.encode("utf-8", "surrogateescape") for secret in known_secrets()]
            self._secrets_of, self._secrets_at = revision, now
        for secret in self._secrets:
            if secret in body:
                self._found_secret = True
                body = body.replace(secret, b"[redacted]")
        return body

    def _keep_turn(self, known: ConversationRecord, ended: _Ended) -> None:
        turn = ended.turn
        if known.last_turn is not None:
            self._values -= known.last_turn.size * _TURN_FACTOR
        if turn is not None:
            self._values += turn.size * _TURN_FACTOR
        self._with_content[known.id] = known
        self._with_content.move_to_end(known.id)
        known.last_turn, known.last_answer = turn, ended.answer
        while self.held_bytes > self.max_bytes:
            if not self._forget_oldest(known):
                self._forget_content(known)
                break

    def _forget_oldest(self, but: ConversationRecord) -> bool:
        """The content of the conversation that was used longest ago. False if there is none but this one."""
        oldest = next(iter(self._with_content.values()), None)
        if oldest is None or oldest is but:
            return False
        self._forget_content(oldest)
        return True

    def _forget_content(self, known: ConversationRecord) -> None:
        self._with_content.pop(known.id, None)
        for request in known.requests:
            if request.content is not None:
                self._release(request)
        for lane in [lane for lane in self._last if lane[0] == known.id]:
            del self._last[lane]
        if known.last_turn is not None:
            self._values -= known.last_turn.size * _TURN_FACTOR
            known.read_words()
            known.last_turn = known.last_answer = None

    def _release(self, request: RequestRecord) -> None:
        content = request.content
        if content is None:
            return
        self._bodies -= content.client.size
        if content.provider is not None and content.provider is not content.client:
            self._bodies -= content.provider.size
        request.content = None

    def _forget_request(self, request: RequestRecord) -> None:
        """Requests of its conversation that came later may share its pieces: all of the conversation's content goes with it."""
        known = self.conversations.get(request.conversation)
        if known is not None and request.content is not None:
            self._forget_content(known)
        self._release(request)
        self.requests.pop(request.id, None)
        if known is not None:
            known.counted()
        if known is not None and known.requests and known.requests[0] is request:
            known.requests.popleft()

    def _count(self, began: float) -> None:
        slot = int(began // 1800)
        self._by_hour[slot] = self._by_hour.get(slot, 0) + 1
        while len(self._by_hour) > 96:
            self._by_hour.popitem(last=False)

    def _count_days(self) -> None:
        day = ""
        for record in self._uncounted:
            day = day_of(record.began)
            self._days.setdefault((day, record.caller), DayFigures()).add(record)
        self._uncounted.clear()
        if len(self._days) > _MOST_DAYS:
            self._days = {place: held for place, held in self._days.items() if place[0] == day}

    # What the pages read, with the lock

    def figures_of(self, now: float, caller: str | None) -> DayFigures:
        """Of today; `caller`: None means all of them together."""
        self._count_days()
        day = day_of(now)
        if caller is not None:
            return self._days.get((day, caller), DayFigures())
        total = DayFigures()
        for (held_day, _), held in self._days.items():
            if held_day == day:
                total.join(held)
        return total

    def running(self) -> dict[str, float]:
        """The conversations that wait for a reply, and since when."""
        return {
            name: max(one.report.began for one in list(held.values()))
            for name, held in list(self._by_conversation.items())
            if held
        }

    def half_hours(self, now: float, number: int = 17) -> list[int]:
        """Requests of the last half hours; the present one is the last."""
        last = int(now // 1800)
        return [self._by_hour.get(slot, 0) for slot in range(last - number + 1, last + 1)]

    def running_of(self, conversation: str) -> Iterator[tuple[RequestReport, list[Attempt]]]:
        for running in list(self._by_conversation.get(conversation, {}).values()):
            yield running.report, running.attempts


def day_of(moment: float) -> str:
    """By the clock of this machine."""
    return strftime("%Y-%m-%d", localtime(moment))


def _attempts_of(report: RequestReport, attempts: list[Attempt]) -> Iterator[AttemptRecord]:
    for tried, attempt in zip(report.tries, _aligned(report.tries, attempts), strict=False):
        error = attempt.error if attempt is not None else None
        spent = [expense for expense in report.expenses if expense.route == tried.route]
        usage = _usage_of(tried)
        yield AttemptRecord(
            route=tried.route,
            after=max(tried.began - report.began, 0.0),
            seconds=tried.seconds,
            first_bytes=attempt.first_bytes if attempt is not None else None,
            first_content=attempt.first_content if attempt is not None else None,
            error=tried.error,
            status=status_of(error) if error is not None else None,
            words=_words_of(error),
            forwarded=attempt.forwarded if attempt is not None else False,
            usage=usage,
            dollars=spent[-1].dollars if spent and usage.total_tokens else None,
            dialect=attempt.origin.dialect if attempt is not None else "",
            url=attempt.sent.url if attempt is not None and attempt.sent is not None else "",
        )


def _first_content(report: RequestReport, attempts: Sequence[AttemptRecord]) -> float | None:
    """Seconds since the request came: the report counts from the attempt that answered."""
    if report.first_content is None or not attempts:
        return report.first_content
    with_content = [one for one in attempts if one.first_content is not None]
    answered = with_content[-1] if with_content else attempts[-1]
    return answered.after + (
        report.first_content if answered.first_content is None else answered.first_content
    )


def _usage_of(tried: AttemptReport) -> Usage:
    match tried.handovers:
        case []:
            return NO_USAGE
        case [one]:
            return one.usage
        case several:
            return sum_of(one.usage for one in several)


def _aligned(tries: list[AttemptReport], attempts: list[Attempt]) -> Iterator[Attempt | None]:
    """The attempt of each try; None where it did not come to one."""
    left = deque(attempts)
    for tried in tries:
        yield left.popleft() if left and left[0].handovers is tried.handovers else None


def _words_of(error: SegueError | None) -> str:
    if error is None:
        return ""
    body = error.body.decode("utf-8", "replace") if isinstance(error, ProviderError) else ""
    words = body.strip() or error.message
    return str(redact_known(redact_text(words[:_MOST_WORDS])))
