"""A client's requests, one after another: what was read once is not read again.

A client that its server keeps nothing for sends the whole history each time, and all but the end of it is the very bytes of
its last request. So what was read is kept with its bytes; of a body that begins with them only the rest is parsed, decoded
and adopted. The result is the same either way.

A request is kept in stretches: each begins with a reply of the model, behind what a user or a tool said. No message means
something else because of what follows such a place, so reading may go on at each of them. It goes on at the last one up to
which all bytes are known: clients move marks for the cache along with the end, and change their last messages.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.cache_budget import CacheBudget
from segue.conversation.blocks import ToolCall
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.tool_cache import FIELD, LEAST_TOOLS, ParsedBody, ToolCache
from segue.dialects.dialect import Dialect
from segue.dialects.requests.json_fields import wrong_type
from segue.transcript.adopt import adopt
from segue.transcript.fast import fast_paths
from segue.transcript.fast.fast_adopt import adopt_fast
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from segue.dialects.dialect import DecodedRequest

_Place: TypeAlias = tuple[str, str, str | None, bytes]
"""Where requests are looked for that may begin alike."""
_BEGINNING = 256
"""How many bytes of a body are part of its place."""
_LEAST = 16_384
_HELD = 4
"""What a known request takes, as a multiple of its bytes: these, and the values read from them."""
_TRIES = 2
"""At so many places reading is tried to go on: behind the last of them, a client may have taken its reply back."""
_MOST_STRETCHES, _LATE_STRETCHES = 32, 16
"""Each is compared by itself. Where there are more than the former, all but the latter become one: clients hardly change them."""
_COMMA = re.compile(rb"[ \t\r\n]*,")
_BETWEEN = frozenset(b" \t\r\n,")


class PartialRequestError(Exception):
    """A request may be only the end of one: it is not read before the rest is put in."""


@final
class ReadRequest(Struct, frozen=True, kw_only=True):
    """A request as it was read."""

    fields: dict[str, Any]
    """The body. If its beginning was known, of the messages only those that lead it and the last ones."""
    known: int = 0
    """How many messages of the conversation were read before."""
    conversation: Conversation
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    repairs: tuple[Repair, ...] = ()
    """What was set right in adopting it."""
    continues: bool = False
    """Whether it ends with results: a turn goes on."""
    head: int = 0
    """Where the messages begin in the body; 0 if that is not known."""
    refers: bool = True
    """Whether its messages may refer to what they do not hold: their bytes show that nearly all do not."""
    tail: bytes = b""
    """What follows messages that are known by now, but for known tools: the body's outer fields are there, or in the head."""


class _Stretch(NamedTuple):
    """Some messages of a body. All but its text is about the body up to its end."""

    text: bytes
    """As they came, with all that stands before them; that of the first one begins the body."""
    messages: int
    """How many messages of the conversation there are."""
    minted: int
    counted: int
    """How often it holds what the provider counts in a request."""
    refers: bool
    """Whether its messages may refer to what they do not hold."""
    ids: frozenset[str]
    """Of its own messages, on wires where they have some."""


@final
class _KnownRequest(Struct, frozen=True, eq=False):
    """A body up to its last reply, and what was read of it."""

    begin: int
    """Where the messages begin."""
    head: dict[str, Any]
    """The fields before the messages."""
    leading: list[Any]
    """Messages of the system prompt, as they came."""
    stretches: tuple[_Stretch, ...]
    messages: tuple[Message, ...]
    size: int = 0
    """Of all stretches, in bytes."""

    def common(self, body: bytes) -> list[int]:
        """Where the stretches end with which a body begins."""
        ends: list[int] = []
        at = 0
        for stretch in self.stretches:
            if not body.startswith(stretch.text, at):
                break
            at += len(stretch.text)
            ends.append(at)
        return ends


@final
class ReadCache:
    """The requests read last, found by their bytes. It holds `budget` bytes or so; what was not used longest goes first.

    A value of its caller, who decides how much it may hold: it knows no clock and no file. Bodies shorter than `least` are
    read as fast as they are looked for.
    """

    budget: CacheBudget

    def __init__(self, budget: int, *, least: int = _LEAST) -> None:
        self.tools = ToolCache(budget, min(least, LEAST_TOOLS))
        """The tools of the same requests, within the same budget."""
        self._least = least
        self.held = 0
        CacheBudget(budget).share(requests=self, tools=self.tools)
        self._serial = 0
        self._order: OrderedDict[int, _Place] = OrderedDict()
        self._known: dict[_Place, dict[int, _KnownRequest]] = {}

    def read(
        self,
        dialect: Dialect,
        body: bytes,
        *,
        owner: str = "",
        model: str | None = None,
        prepare: Callable[[Sequence[Message]], Sequence[Message]] = tuple,
        unless: Collection[str] = (),
    ) -> ReadRequest:
        """Parse, decode and adopt a request. Raises what `msgspec.json.decode` and `decode_request` raise.

        `owner`: whose requests it may be compared with. `model` is used instead of the one that the body names. `prepare`
        changes decoded messages before they are adopted, each on its own. `unless`: a request with one of these fields raises
        PartialRequestError.
        """
        reader = _Reader(dialect, model, prepare, self.tools, frozenset(unless))
        if len(body) < self._least or not fast_paths.enabled():
            return reader.read_whole(body, keep=False)[0]
        place = owner, dialect.name, model, body[:_BEGINNING]
        for serial, known in reversed(self._known.get(place, {}).items()):
            found = reader.read_on(known, body)
            if found is not None:
                self._keep(place, found[1], instead=serial)
                return found[0]
        read, new = reader.read_whole(body, keep=True)
        if new is not None:
            self._keep(place, new)
        return read

    def _keep(self, place: _Place, new: _KnownRequest, instead: int | None = None) -> None:
        if instead is not None:
            self._drop(instead)
        self._serial += 1
        self._order[self._serial] = place
        self._known.setdefault(place, {})[self._serial] = new
        size = new.size * _HELD
        self.held += size
        self.budget.fit(size)

    def drop_oldest(self) -> None:
        self._drop(next(iter(self._order)))

    def _drop(self, serial: int) -> None:
        place = self._order.pop(serial)
        alike = self._known[place]
        self.held -= alike.pop(serial).size * _HELD
        if not alike:
            del self._known[place]


@final
class _Reader(Struct, frozen=True):
    """How requests of one wire are read."""

    dialect: Dialect
    model: str | None
    prepare: Callable[[Sequence[Message]], Sequence[Message]]
    tools: ToolCache
    unless: frozenset[str]

    def read_whole(self, body: bytes, *, keep: bool) -> tuple[ReadRequest, _KnownRequest | None]:
        """A request of which nothing is known; and if it is to be kept, what the next one may begin with."""
        parsed = self.tools.parse(body) if keep else ParsedBody(msgspec.json.decode(body), body)
        fields, text = parsed.fields, parsed.text
        if type(fields) is not dict:
            raise wrong_type("", "the body of a request", fields)
        decoded = self._decode(fields)
        prepared = self.prepare(decoded.messages)
        clean = adopt_fast(prepared) if fast_paths.enabled() else None
        if clean is None or decoded.repairs or decoded.is_linked:
            name, rules = self.dialect.name, self.dialect.rules
            adoption = adopt(prepared, system=decoded.system, dialect=name, rules=rules)
            repairs = (*decoded.repairs, *adoption.repairs)
            return _read(fields, decoded, adoption.conversation, repairs=repairs), None
        conversation = Conversation(tuple(clean[0]), decoded.system, clean[1])
        refers = self.dialect.server.may_refer(text)  # known tools refer to nothing
        field = self.dialect.messages_field
        given = fields.get(field)  # a prompt that the provider holds may stand for it
        if not keep or type(given) is not list:
            return _read(fields, decoded, conversation, refers=refers), None
        before = list(fields)[: list(fields).index(field)]
        start = _start_of_messages(text, field)
        # If tools stood before the messages, the text is shorter there than the body.
        shorter = len(body) - len(text) if FIELD in before else 0
        head = {name: fields[name] for name in before}
        nothing = _KnownRequest(start + shorter, head, given[: decoded.leading], (), ())
        place = _Bytes(body, 0, text, start, shorter)
        stretches = self._stretches(decoded, conversation, given, place, refers=refers) or ()
        known = _grown(nothing, stretches, conversation) if stretches else None
        tail = text[max((known.size if known is not None else start + shorter) - shorter, 0) :]
        read = _read(fields, decoded, conversation, head=nothing.begin, refers=refers, tail=tail)
        return read, known

    def read_on(self, known: _KnownRequest, body: bytes) -> tuple[ReadRequest, _KnownRequest] | None:
        """The same of a request that begins with known bytes; None if it does not, or what follows changes what they mean."""
        ends = known.common(body)
        for number in range(len(ends), max(len(ends) - _TRIES, 0), -1):
            comma = _COMMA.match(body, ends[number - 1])
            found = self._read_behind(known, number, body, comma) if comma is not None else None
            if found is not None:
                return found
        return None

    def _read_behind(
        self, known: _KnownRequest, number: int, body: bytes, comma: re.Match[bytes]
    ) -> tuple[ReadRequest, _KnownRequest] | None:
        """Read what follows so many known stretches and a comma."""
        last, field, server = known.stretches[number - 1], self.dialect.messages_field, self.dialect.server
        before = b'{"%b":[' % field.encode()
        parsed = self.tools.parse(body, comma.end(), before)
        fields, text = parsed.fields, parsed.text
        if server.counted and last.counted + parsed.count(server.counted) > server.most_counted:
            return None
        new = fields[field]
        if type(new) is not list:
            return None
        ids = _ids_of(new)
        if ids and any(not ids.isdisjoint(stretch.ids) for stretch in known.stretches[:number]):
            return None
        fields = {**known.head, **fields, field: [*known.leading, *new]}
        decoded = self._decode(fields)
        if decoded.repairs or decoded.is_linked or decoded.leading != len(known.leading):
            return None
        messages = self.prepare(decoded.messages)
        clean = adopt_fast(messages, last.minted) if messages and messages[0].speaker == "model" else None
        if clean is None:
            return None
        refers = last.refers or server.may_refer(text)
        place = _Bytes(body, comma.start(), text, len(before), comma.end() - len(before))
        adopted = (*known.messages[: last.messages], *clean[0])
        conversation = Conversation(adopted, decoded.system, clean[1])
        stretches = self._stretches(decoded, conversation, new, place, last, refers=refers)
        if stretches is None:
            return None
        head, count_known = known.begin, last.messages
        read = _read(fields, decoded, conversation, known=count_known, head=head, refers=refers, tail=text)
        return read, _grown(known, (*known.stretches[:number], *stretches), conversation)

    def _decode(self, fields: dict[str, Any]) -> DecodedRequest:
        if not self.unless.isdisjoint(fields):
            raise PartialRequestError
        named = fields if self.model is None else self.dialect.with_model(fields, self.model)
        return self.dialect.decode_request(named)

    def _stretches(
        self,
        decoded: DecodedRequest,
        conversation: Conversation,
        given: list[Any],
        place: _Bytes,
        last: _Stretch | None = None,
        *,
        refers: bool,
    ) -> tuple[_Stretch, ...] | None:
        """Those of the given messages, up to their last reply; behind `last`, if that is known. None if they stand elsewhere."""
        body, began, text, at, shorter = place
        server, start = self.dialect.server, at
        pieces = _split_messages(text, self.dialect.messages_field)
        if len(pieces) != len(given):
            return None
        counted = last.counted if last is not None else 0
        made: list[_Stretch] = []
        first = 0
        for end, messages, minted in _ends(decoded, conversation, decoded.leading if last is not None else 0):
            at = _end_of(text, at, pieces[first:end])
            if at < 0:
                return None
            written = body[began : at + shorter]
            counted += server.count_in(written)
            made.append(_Stretch(written, messages, minted, counted, refers, _ids_of(given[first:end])))
            first, began = end, at + shorter
        at = _end_of(text, at, pieces[first : first + 1])
        if at < 0:
            return None
        if refers and not (last is not None and last.refers) and not server.may_refer(text[start:at]):
            return tuple([stretch._replace(refers=False) for stretch in made])
        return tuple(made)


class _Bytes(NamedTuple):
    """Where messages stand that were parsed."""

    body: bytes
    began: int
    """Where known bytes end in the body."""
    text: bytes
    """The JSON of an object that holds them."""
    start: int
    """Where they begin in the text."""
    shorter: int
    """By so many bytes the text is shorter than the body before them."""


def _ends(decoded: DecodedRequest, conversation: Conversation, skipped: int) -> list[tuple[int, int, int]]:
    """Where the last stretches end: behind how many of the messages as they came, but for those skipped, and of those of the
    conversation, and how many ids are minted by then."""
    ends: list[tuple[int, int, int]] = []
    came, starts = decoded.messages, decoded.starts or range(decoded.leading, sys.maxsize)
    messages, minted = len(conversation.messages), conversation.minted
    for at in range(len(came) - 1, 0, -1):
        message, before = came[at], came[at - 1]
        messages -= (
            not message.speaker == before.speaker == "tool"
        )  # adopted, results in a row are one message
        if message.speaker == "model":
            minted -= list(map(type, message.blocks)).count(ToolCall)
            if before.speaker != "model" and not before.instruction and starts[at - 1] < starts[at]:
                ends.append((starts[at] - skipped, messages, minted))
                if len(ends) == _LATE_STRETCHES:
                    break
    return ends[::-1]


def _end_of(text: bytes, at: int, pieces: list[Raw]) -> int:
    """Where these messages end if they begin at that place; -1 if they stand elsewhere: a body may have two fields of one name."""
    for piece in pieces:
        while text[at] in _BETWEEN:
            at += 1
        if not text.startswith(piece, at):
            return -1
        at += len(piece)
    return at


def _grown(
    known: _KnownRequest, stretches: tuple[_Stretch, ...], conversation: Conversation
) -> _KnownRequest:
    if len(stretches) > _MOST_STRETCHES:
        old, late = stretches[:-_LATE_STRETCHES], stretches[-_LATE_STRETCHES:]
        text, ids = b"".join([stretch.text for stretch in old]), _NO_IDS.union(*[one.ids for one in old])
        stretches = (old[-1]._replace(text=text, ids=ids), *late)
    messages = conversation.messages[: stretches[-1].messages]
    size = sum([len(stretch.text) for stretch in stretches])
    return structs.replace(known, stretches=stretches, messages=messages, size=size)


def _read(
    fields: dict[str, Any],
    decoded: DecodedRequest,
    conversation: Conversation,
    *,
    repairs: tuple[Repair, ...] = (),
    known: int = 0,
    head: int = 0,
    refers: bool = True,
    tail: bytes = b"",
) -> ReadRequest:
    return ReadRequest(
        fields=fields,
        known=known,
        conversation=conversation,
        tools=decoded.tools,
        options=decoded.options,
        repairs=repairs,
        continues=decoded.ends_with_results,
        head=head,
        refers=refers,
        tail=tail,
    )


@cache
def _splitter(field: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        msgspec.defstruct("Body", [("messages", list[Raw])], rename={"messages": field})
    )


def _split_messages(text: bytes, field: str) -> list[Raw]:
    """The messages of a body, each as it is written."""
    pieces: list[Raw] = _splitter(field).decode(text).messages
    return pieces


def _start_of_messages(text: bytes, field: str) -> int:
    """Where the list of messages probably begins."""
    name = b'"%b"' % field.encode()
    at = text.find(name) + len(name)
    return text.find(b"[", at) + 1


def _ids_of(given: list[Any]) -> frozenset[str]:
    """The ids of messages as they came, as far as they have some."""
    names = [message["id"] for message in given if type(message) is dict and "id" in message]
    return frozenset([name for name in names if type(name) is str]) if names else _NO_IDS


_NO_IDS: frozenset[str] = frozenset()
