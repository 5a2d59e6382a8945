"""A conversation as people read it: turns with their calls and results, and between two turns what a change of model meant."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult, status_of
from segue.conversation.usage import NO_USAGE, Usage
from segue.inspector.markup import words
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.conversation.message import Conversation, Message
    from segue.inspector.record.records import RequestRecord
    from segue.transcript.repairs import Repair

_LINE: Final = 160
_SHOWN_TEXT: Final = 20_000


@final
class ShownThought(Struct, frozen=True, omit_defaults=True):
    """What a model thought, as far as it is shown."""

    text: str
    tokens: int
    sealed_by: str = ""


@final
class ShownCall(Struct, frozen=True, omit_defaults=True):
    """A call and how it ended."""

    name: str
    about: str
    state: str
    """`done`, `failed`, `interrupted` or `open`."""
    result: str = ""
    whole_result: str = ""
    arguments: str = ""


@final
class ShownText(Struct, frozen=True, omit_defaults=True):
    """A text of the model."""

    text: str


@final
class ShownTurn(Struct, kw_only=True, omit_defaults=True):
    """From what the user wrote to the last answer to it."""

    number: int
    asked: str = ""
    parts: list[ShownThought | ShownCall | ShownText] = []
    route: str = ""
    began: float = 0.0
    requests: list[str] = []
    """Their ids."""
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    dollars: float | None = None
    failovers: int = 0
    interrupted: int = 0
    errors: list[str] = []


@final
class Seam(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where another model took over."""

    before: str
    after: str
    how: str
    """`switched`, `failover`, `recovered`, `chosen by the router`."""
    at: float = 0.0
    why: str = ""
    messages: int = 0
    not_visible: list[str] = []
    restored: int = 0
    cached: int | None = None
    request: str = ""


def turns_of(said: Conversation | None, requests: Sequence[RequestRecord], turns: int) -> list[ShownTurn]:
    """`turns`: so many were counted; what was said before them came from elsewhere."""
    written = _written_turns(said) if said is not None else []
    shown = written or [ShownTurn(number=0) for _ in range(turns)]
    ahead = len(shown) - turns
    for place, turn in enumerate(shown, 1):
        turn.number = place
    for one in requests:
        place = one.turn - 1 + ahead
        if 0 <= place < len(shown):
            _add_request(shown[place], one)
    return shown


def _add_request(turn: ShownTurn, one: RequestRecord) -> None:
    turn.requests = [*turn.requests, one.id]
    turn.route = one.route or turn.route
    turn.began = turn.began or one.began
    turn.seconds += one.seconds
    turn.usage = turn.usage.plus(one.usage)
    turn.failovers += one.failovers
    if one.dollars is not None:
        turn.dollars = (turn.dollars or 0.0) + one.dollars
    if one.error:
        turn.errors = [*turn.errors, one.error]


def _written_turns(said: Conversation) -> list[ShownTurn]:
    results = {
        block.call_id: block
        for message in said.messages
        for block in message.blocks
        if type(block) is ToolResult
    }
    turns: list[ShownTurn] = []
    for message in said.messages:
        if message.speaker == "user" and not message.instruction:
            asked = _asked(message)
            if asked or not turns:
                turns.append(ShownTurn(number=0, asked=asked))
        elif message.speaker == "model":
            if not turns:
                turns.append(ShownTurn(number=0))
            turn = turns[-1]
            turn.parts = [*turn.parts, *_parts(message, results)]
            turn.route = _route_of(message) or turn.route
    for turn in turns[:-1]:  # what was not answered when the user went on will not be
        turn.parts = [_given_up(part) for part in turn.parts]
    for turn in turns:
        turn.interrupted = sum(
            isinstance(part, ShownCall) and part.state == "interrupted" for part in turn.parts
        )
    return turns


def _given_up(part: ShownThought | ShownCall | ShownText) -> ShownThought | ShownCall | ShownText:
    if not isinstance(part, ShownCall) or part.state != "open":
        return part
    return structs.replace(
        part, state="interrupted", result="no result was recorded; it may have had side effects"
    )


def _route_of(message: Message) -> str:
    origin = message.origin
    return (
        f"{origin.provider}/{origin.model}" if origin is not None and origin.provider and origin.model else ""
    )


def _asked(message: Message) -> str:
    """What the user wrote: not the notes that its program puts before it, in angle brackets."""
    texts = [block.text for block in message.blocks if type(block) is Text and block.text.strip()]
    own = [text for text in texts if not text.lstrip().startswith("<")]
    media = [describe(block).text for block in message.blocks if type(block) is Media]
    return "\n".join([*(own or texts), *media])[:_SHOWN_TEXT]


def _parts(
    message: Message, results: dict[str, ToolResult]
) -> Iterable[ShownThought | ShownCall | ShownText]:
    for block in message.blocks:
        match block:
            case Reasoning(text, seal):
                by = seal.origin.provider or seal.origin.dialect if seal is not None else ""
                yield ShownThought(text[:_SHOWN_TEXT], max(len(text) // 4, 0), by)
            case Text(text) if text.strip():
                yield ShownText(text[:_SHOWN_TEXT])
            case ToolCall():
                yield _call(block, results.get(block.id))
            case Code(code):
                yield ShownText(code[:_SHOWN_TEXT])
            case _:
                pass


def _call(call: ToolCall, result: ToolResult | None) -> ShownCall:
    if result is None:
        return ShownCall(call.name, about(call.arguments), "open", "", "", _json(call.arguments))
    status = status_of(result)
    state = {"complete": "done", "error": "failed", "cancelled": "interrupted"}.get(status, "open")
    text = "\n".join(part for part in (result.error or "", text_of(result.output)) if part)
    if result.reason is not None and not text:
        text = f"no result: {result.reason.replace('_', ' ')}"
    return ShownCall(
        call.name, about(call.arguments), state, short_result(text), text[:_SHOWN_TEXT], _json(call.arguments)
    )


def about(arguments: Any) -> str:
    """The arguments of a call in one line."""
    if not isinstance(arguments, dict):
        return words.plain_text(str(arguments or ""), _LINE)
    values = [(name, value) for name, value in arguments.items() if value not in ("", None, [], {})]
    if len(values) == 1:
        return words.plain_text(_plain(values[0][1]), _LINE)
    return words.plain_text(" ".join(f"{name}: {_plain(value)}" for name, value in values), _LINE)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()[:_SHOWN_TEXT]
    except (TypeError, ValueError, RecursionError):
        return str(value)[:_SHOWN_TEXT]


def short_result(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no output" if not text else ""
    first = words.plain_text(lines[0], _LINE)
    return first if len(lines) == 1 else f"{first}  ({len(lines):,} lines)"


# Seams


def seams_of(requests: Sequence[RequestRecord]) -> dict[int, Seam]:
    """By the turn that the new model answered first."""
    seams: dict[int, Seam] = {}
    before: RequestRecord | None = None
    seen: set[str] = set()
    for one in requests:
        if not one.route:
            continue
        if before is not None and before.route != one.route and one.turn not in seams:
            seams[one.turn] = _seam(before, one, returns=one.route in seen)
        seen.add(one.route)
        before = one
    return seams


def _seam(before: RequestRecord, one: RequestRecord, *, returns: bool) -> Seam:
    failed = [attempt for attempt in one.attempts if attempt.route != one.route and attempt.error]
    how = "chosen by the router"
    why = ""
    if failed:
        how = "failover"
        why = _failures(one)
    elif one.switched and before.switched != one.switched:
        how = "switched"
    elif before.switched and not one.switched:
        how = "switched back"
    elif before.failovers or returns:
        how = "recovered"
    return Seam(
        before=before.route,
        after=one.route,
        how=how,
        at=one.began,
        why=why,
        messages=one.messages,
        not_visible=not_visible(one.losses),
        restored=one.restored if returns else 0,
        cached=one.usage.cached_tokens if returns else None,
        request=one.id,
    )


def _failures(one: RequestRecord) -> str:
    """Who failed before, in words."""
    by_route: dict[str, Counter[str]] = {}
    for attempt in one.attempts:
        if attempt.error:
            by_route.setdefault(attempt.route, Counter())[
                f"{attempt.status or ''} {attempt.error}".strip()
            ] += 1
    said = [
        f"{route} failed ({', '.join(f'{what}{_times(number)}' for what, number in found.items())})"
        for route, found in by_route.items()
    ]
    billed = any(attempt.error and attempt.usage.total_tokens for attempt in one.attempts)
    rest = "some of it was billed" if billed else "nothing was shown or billed before"
    return f"{'; '.join(said)}, so the next member answered; {rest}."


def _times(number: int) -> str:
    return "" if number == 1 else ", twice" if number == 2 else f", {number} times"


_NOT_VISIBLE: Final = {
    "reasoning_dropped": ("reasoning block", "reasoning blocks"),
    "seal_dropped": ("signature", "signatures"),
    "media_described": ("medium, described in words", "media, described in words"),
    "citations_dropped": ("source", "sources"),
    "tool_not_offered": ("tool", "tools"),
    "fields_dropped": ("set of fields", "sets of fields"),
    "message_dropped": ("message", "messages"),
    "result_superseded": ("repeated result", "repeated results"),
    "item_dropped": ("item", "items"),
    "text_dropped": ("text behind a call", "texts behind calls"),
}


def not_visible(losses: Sequence[Repair]) -> list[str]:
    """What the target does not see, counted: 2 reasoning blocks."""
    counts = Counter(loss.kind for loss in losses)
    return [
        words.count(number, *_NOT_VISIBLE.get(kind, (kind.replace("_", " "),)))
        for kind, number in counts.items()
    ]


def seals_of(said: Conversation) -> dict[str, int]:
    """Signatures that are kept, by the route whose model can open them."""
    found: dict[str, int] = {}
    for message in said.messages:
        for block in message.blocks:
            seal = getattr(block, "seal", None)
            if seal is not None:
                route = f"{seal.origin.provider}/{seal.origin.model}"
                found[route] = found.get(route, 0) + 1
    return found
