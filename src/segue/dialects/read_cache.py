"""A client's requests, one after another: what was read once is not read again.

A client that its server keeps nothing for sends the whole history each time, and all but the end of it is the very bytes of
its last request. So what was read is kept with its bytes; of a body that begins with them only the rest is parsed, decoded
and adopted. The result is the same either way.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from segue.cache_budget import CacheBudget
from segue.conversation.message import Conversation, Message, Speaker
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.dialect import Dialect
from segue.dialects.known_request import AddedMessages, KnownRequest, ids_of
from segue.dialects.known_tools import FIELD, LEAST_TOOLS, ParsedBody, ToolCache
from segue.dialects.message_bytes import (
    end_of_first_messages,
    end_of_messages,
    is_start_of_messages,
    split_last_messages,
    split_messages,
    start_of_messages,
)
from segue.dialects.request_fields import wrong_type
from segue.transcript import fast_paths
from segue.transcript.adopt import adopt
from segue.transcript.fast_adopt import adopt_fast
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
_FEW = 20
"""Where its end is not easily moved, fewer messages than that behind a known beginning are read again with the next request."""
_MOST_PIECES = 32
_LOOK_BACK = 32
"""Among so many messages from the end on, the reply is looked for before which a body may be continued."""
_COMMA = re.compile(rb"[ \t\r\n]*,")


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
    head: int = 0
    """Where the messages begin in the body; 0 if that is not known."""
    refers: bool = True
    """Whether its messages may refer to what they do not hold: their bytes show that nearly all do not."""
    tail: bytes = b""
    """What follows messages that are known by now, but for known tools: the body's outer fields are there, or in the head."""


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
        self._known: dict[_Place, dict[int, KnownRequest]] = {}
        self._speakers: dict[str, dict[Any, Speaker | Literal["operator"]]] = {}

    def read(
        self,
        dialect: Dialect,
        body: bytes,
        *,
        owner: str = "",
        model: str | None = None,
        prepare: Callable[[Sequence[Message]], Sequence[Message]] = tuple,
    ) -> ReadRequest:
        """Parse, decode and adopt a request. Raises what `msgspec.json.decode` and `decode_request` raise.

        `owner`: whose requests it may be compared with. `model` is used instead of the one that the body names. `prepare`
        changes decoded messages before they are adopted, each on its own.
        """
        reader = _Reader(dialect, model, prepare, self._speakers.setdefault(dialect.name, {}), self.tools)
        if len(body) < self._least or not fast_paths.enabled():
            return reader.read_whole(body, keep=False)[0]
        place = owner, dialect.name, model, body[:_BEGINNING]
        for serial, known in reversed(self._known.get(place, {}).items()):
            found = reader.read_on(known, body) if known.begins(body) else None
            if found is not None:
                self._keep(place, found[1] or known, instead=serial)
                return found[0]
        read, new = reader.read_whole(body, keep=True)
        if new is not None:
            self._keep(place, new)
        return read

    def _keep(self, place: _Place, new: KnownRequest, instead: int | None = None) -> None:
        if instead is not None:
            self._drop(instead)
        self._serial += 1
        self._order[self._serial] = place
        self._known.setdefault(place, {})[self._serial] = new
        self.held += new.size * _HELD
        self.budget.fit()

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
    speakers: dict[Any, Speaker | Literal["operator"]]
    """Role and type of a message on this wire → who speaks."""
    tools: ToolCache

    def read_whole(self, body: bytes, *, keep: bool) -> tuple[ReadRequest, KnownRequest | None]:
        """A request of which nothing is known; and if it is to be kept, what the next one may begin with."""
        parsed = self.tools.parse(body) if keep else ParsedBody(msgspec.json.decode(body), body)
        fields = parsed.fields
        if type(fields) is not dict:
            raise wrong_type("", "the body of a request", fields)
        decoded = self._decode(fields)
        prepared = self.prepare(decoded.messages)
        clean = adopt_fast(prepared) if fast_paths.enabled() else None
        if clean is None or decoded.repairs or decoded.is_linked:
            name, rules = self.dialect.name, self.dialect.rules
            adoption = adopt(prepared, system=decoded.system, dialect=name, rules=rules)
            repairs = (*decoded.repairs, *adoption.repairs)
            return _read(fields, decoded, adoption.conversation, repairs), None
        conversation = Conversation(tuple(clean[0]), decoded.system, clean[1])
        refers = self.dialect.server.may_refer(body)
        read = structs.replace(_read(fields, decoded, conversation), refers=refers)
        field = self.dialect.messages_field
        given = fields[field]
        if not keep or type(given) is not list:
            return read, None
        before = list(fields)[: list(fields).index(field)]
        start = body[: start_of_messages(body, field)]
        head, counted = {name: fields[name] for name in before}, self.dialect.server.count_in(start)
        leading, empty = given[: decoded.leading], Conversation(system=decoded.system)
        nothing = KnownRequest(
            (start,), len(start), len(start), head, leading, None, (), frozenset(), counted, empty
        )
        # If tools stood before the messages, the text is shorter there than the body.
        shorter = len(body) - len(parsed.text) if FIELD in before else 0
        messages, first = decoded.messages, -decoded.leading
        aligned = first + len(given) == len(messages)
        found = AddedMessages(
            given, parsed.text, messages, first, conversation, fields, aligned=aligned, shorter=shorter
        )
        known = self._next(nothing, body, found)
        at = (known or nothing).size - shorter
        return structs.replace(read, head=len(start), tail=parsed.text[at:]), known

    def read_on(self, known: KnownRequest, body: bytes) -> tuple[ReadRequest, KnownRequest | None] | None:
        """The same of a request that begins with known bytes; None if what follows them changes what they mean."""
        comma = _COMMA.match(body, known.size)
        if comma is None:
            return None
        field, server = self.dialect.messages_field, self.dialect.server
        before = b'{"%b":[' % field.encode()
        parsed = self.tools.parse(body, comma.end(), before)
        if server.counted and known.counted + parsed.count(server.counted) > server.most_counted:
            return None
        fields = parsed.fields
        new = fields[field]
        if type(new) is not list or (known.ids and not known.ids.isdisjoint(ids_of(new))):
            return None
        fields = {**known.head, **fields, field: [*known.leading, known.last, *new]}
        decoded = self._decode(fields)
        count = len(known.overlap)
        overlaps = decoded.messages[:count] == known.overlap and decoded.leading == len(known.leading)
        if not overlaps or decoded.repairs or decoded.is_linked:
            return None
        messages = self.prepare(decoded.messages[count:])
        clean = adopt_fast(messages, known.conversation.minted) if messages else None
        if clean is None or messages[0].speaker != "model":
            return None
        conversation = Conversation((*known.conversation.messages, *clean[0]), decoded.system, clean[1])
        count_known = len(known.conversation.messages)
        read = _read(fields, decoded, conversation, (), count_known, known.begin, parsed.text)
        refers = known.refers or self.dialect.server.may_refer(parsed.text)
        added = AddedMessages(
            new,
            parsed.text,
            decoded.messages,
            count,
            conversation,
            fields,
            aligned=count + len(new) == len(decoded.messages),
            start=len(before),
            shorter=comma.end() - len(before),
        )
        return structs.replace(read, refers=refers), self._next(known, body, added)

    def _decode(self, fields: dict[str, Any]) -> DecodedRequest:
        named = fields if self.model is None else self.dialect.with_model(fields, self.model)
        return self.dialect.decode_request(named)

    def _messages(self, fields: dict[str, Any], given: list[Any]) -> tuple[Message, ...]:
        named, field = self.dialect.server.model_field, self.dialect.messages_field
        return self._decode(
            {named: fields.get(named), field: given} if named in fields else {field: given}
        ).messages

    def _next(self, known: KnownRequest, body: bytes, read: AddedMessages) -> KnownRequest | None:
        """What the next request may begin with; None if there is no such place, or it stays where it was."""
        at = self._place(known, read)
        worth = known.last is None or len(read.given) >= _FEW
        if not at or not (read.aligned or worth):
            return None
        end = self._end(known, body, read, at)
        if not end:
            return None
        found = read.behind(at) if read.aligned else None
        if found is None and worth:
            found = self._decoded_again(known, read, at)
        if found is None:
            return None
        overlap, count, calls = found
        messages, minted = read.conversation.messages, read.conversation.minted
        added = body[known.size : end]
        whole = len(known.pieces) < _MOST_PIECES
        return KnownRequest(
            (*known.pieces, added) if whole else (body[:end],),
            end,
            known.begin,
            known.head,
            known.leading,
            read.given[at - 1],
            overlap,
            known.ids | ids if (ids := ids_of(read.given[:at])) else known.ids,
            known.counted + self.dialect.server.count_in(added),
            Conversation(messages[: len(messages) - count], read.conversation.system, minted - calls),
            known.refers or self.dialect.server.may_refer(added),
        )

    def _end(self, known: KnownRequest, body: bytes, read: AddedMessages, at: int) -> int:
        """Where so many of the messages end in the body; 0 if that is not found."""
        field, count, text = self.dialect.messages_field, len(read.given), read.text
        if known.last is not None:
            if end := end_of_first_messages(text, read.start, read.given, at):
                return end + read.shorter
        elif count > 2 * _LOOK_BACK and is_start_of_messages(known.pieces[0], field):
            found = split_last_messages(text, read.fields, field, _LOOK_BACK)
            if found is not None:
                start, pieces = found
                return end_of_messages(body, start + read.shorter, pieces, at - count + len(pieces))
        return end_of_messages(body, known.size, split_messages(read.text, field), at)

    def _decoded_again(
        self, known: KnownRequest, read: AddedMessages, at: int
    ) -> tuple[tuple[Message, ...], int, int] | None:
        """The same where messages are decoded as several, or several as one."""
        last, conversation = read.given[at - 1], read.conversation
        overlap = self._messages(known.head, [*known.leading, last])
        given = [*known.leading, last, *read.given[at:]]
        rest = self.prepare(self._messages(known.head, given)[len(overlap) :])
        calls = sum(len(message.calls) for message in rest)
        clean = adopt_fast(rest, conversation.minted - calls)
        kept = len(conversation.messages) - (len(clean[0]) if clean is not None else 0)
        if clean is None or conversation.messages[kept:] != tuple(clean[0]):
            return None
        return overlap, len(clean[0]), calls

    def _place(self, known: KnownRequest, read: AddedMessages) -> int:
        """Before the last reply; before the last but one, if marks for the cache, which move along, stand between them. 0 if
        there is none, or the known ones end there already."""
        given, last = read.given, 0
        first = max(len(known.leading) if known.last is None else 0, len(given) - _LOOK_BACK)
        for at in range(len(given) - 1, first, -1):
            if self._speaker(read, at) == "model" and self._speaker(read, at - 1) in ("user", "tool"):
                if last:
                    return last if read.is_unmarked(at, last) else at
                last = at
        if known.last is None or (last and read.is_unmarked(0, last)):
            return last
        return 0

    def _speaker(self, read: AddedMessages, at: int) -> Speaker | Literal["operator"]:
        """Whose message it is; if that cannot be seen, it is decoded once for all that have the same role and type."""
        if read.aligned:
            message = read.messages[read.first + at]
            return "operator" if message.instruction else message.speaker
        given = read.given[at]
        kind = (given.get("role"), given.get("type")) if type(given) is dict else None
        try:
            return self.speakers[kind]
        except (KeyError, TypeError):
            alone = self._messages({}, [given])
        speaker = "operator" if not alone or alone[-1].instruction else alone[-1].speaker
        if kind is not None:
            self.speakers[kind] = speaker
        return speaker


def _read(
    fields: dict[str, Any],
    decoded: DecodedRequest,
    conversation: Conversation,
    repairs: tuple[Repair, ...] = (),
    known: int = 0,
    head: int = 0,
    tail: bytes = b"",
) -> ReadRequest:
    return ReadRequest(
        fields=fields,
        known=known,
        conversation=conversation,
        tools=decoded.tools,
        options=decoded.options,
        repairs=repairs,
        head=head,
        tail=tail,
    )
