"""Contents of a Gemini request, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.conversation.extra import Extra
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.gemini import wire
from segue.dialects.gemini.fast import read_fast, write_fast
from segue.dialects.gemini.read_contents import (
    CONTINUES,
    completion_text,
    read_content,
    read_result,
    read_system,
)
from segue.dialects.gemini.reply import media_part
from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.settings import decode_options, decode_tools, encode_settings
from segue.dialects.gemini.shapes import CONTENT, SYSTEM, TOOLS
from segue.dialects.gemini.wire import WITH_ID, WITHOUT_ID, field
from segue.dialects.gemini.write_parts import stands_beside, write_call, write_part, write_result
from segue.dialects.requests.extra_fields import as_fields, own, own_call
from segue.dialects.requests.json_fields import items
from segue.dialects.requests.messages import begun_blocks, check_target, starts_of, take_system
from segue.dialects.requests.shapes import UNFIT, Fitting, fit_tools
from segue.transcript.fast import fast_paths
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.message import Message
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, Transcript

WIRE = "Gemini"


def encode_request(
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    *,
    after: int = 0,
) -> EncodedRequest:
    """The model and whether to stream are not in the body: they are in the address."""
    check_target(transcript, NAME, WIRE)
    settings, repairs = encode_settings(transcript, tools, options, card)
    given, contents = settings.pop("contents", None), _Contents()
    _encode_contents(transcript, after, contents, ids=card.call_ids)
    single = given is not None and len(contents.closed) == 1
    body = {"contents": contents.closed[0] if single else contents.closed}
    return EncodedRequest({**body, **settings}, tuple(repairs), contents.before_reply)


def _encode_contents(transcript: Transcript, after: int, contents: _Contents, *, ids: bool) -> None:
    fast = fast_paths.enabled()
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is UserStep:
            if step.instruction:
                raise unencodable(WIRE, "an instruction in mid-conversation", index)
            contents.begin("user")
            for said in step.blocks:
                contents.add(_encode_block(said), said.extra)
        elif type(step) is ModelStep:
            contents.before_reply = len(contents.closed)
            exchange = write_fast(step.blocks, ids=ids) if fast else None
            if exchange is not None:
                contents.add_exchange(*exchange)
                continue
            contents.begin("model")
            calls: list[AnsweredCall] = []
            first = step.blocks[0] if step.blocks else None
            called = any(type(block) is AnsweredCall for block in step.blocks)
            sealed = any(type(block) is AnsweredCall and block.seal is not None for block in step.blocks)
            for block in step.blocks:
                if type(block) is AnsweredCall:
                    call_id = block.id if _is_named(block, ids=ids) else ""
                    call: Any = write_call(block.name, Raw(block.arguments), call_id, block.seal)
                    # GEM-21: where calls are sealed, the first call of a content is, so another one begins none.
                    begins = block is first or (calls and (not sealed or block.seal is not None))
                    contents.add(_own(call, block.extra), block.extra if begins else None)
                    calls.append(block)
                else:
                    # GEM-02: a content with calls follows no other of the model, but one with calls.
                    contents.add(_encode_block(block), block.extra if block is first or not called else None)
            if calls:  # GEM-04, GEM-06: all of them in one content, and nothing else in it
                contents.begin("user")
                for answered in calls:
                    has_id = _has_id(answered.completion.extra, ids=_is_named(answered, ids=ids))
                    _encode_result(answered, contents, answered.id if has_id else "")


def _is_named(call: AnsweredCall, *, ids: bool) -> bool:
    """GEM-17: a result has no other id than its call."""
    return _has_id(call.extra, ids=ids) or _has_id(call.completion.extra, ids=False)


def _has_id(extra: Extra | None, *, ids: bool) -> bool:
    """GEM-16. What came on this wire is written as it came."""
    return ids if extra is None or extra.dialect != NAME else "id" not in extra.absent


class _Contents:
    """The contents so far. A step is one, unless it came in several."""

    def __init__(self) -> None:
        self.closed: list[Any] = []
        self._role = ""
        self._parts: list[Any] = []
        self._before: list[Any] = []
        """The parts of the content before, if it is of the same role."""
        self.before_reply = 0
        """How many there are before the last reply."""

    def add_exchange(self, parts: list[Any], results: list[Any]) -> None:
        """Add a reply with calls, and their results."""
        self.closed += (wire.Turn("model", parts), wire.Turn("user", results))
        self._role, self._parts, self._before = "user", results, []

    def begin(self, role: str, around: Extra | None = None) -> None:
        self._before = self._parts if role == self._role else []
        self._role, self._parts = role, []
        turn = wire.Turn(role, self._parts)
        self.closed.append(turn if around is None else around.written(as_fields(turn)))

    def add(self, part: Any, extra: Extra | None = None) -> None:
        if extra is not None and extra.container is not None and extra.dialect == NAME:
            self._begin_as_it_came(extra.container)
        self._parts.append(part)

    def _begin_as_it_came(self, around: Extra) -> None:
        continues = around.absent == CONTINUES.absent
        if continues and (self._parts or not self._before):
            return  # what it came behind stands elsewhere now
        if not self._parts:
            self.closed.pop()
        if continues:
            self._parts = self._before
        else:
            self.begin(self._role, around)


_INNER = ("functionCall", "function_call")
_INNER_RESULT = ("functionResponse", "function_response")


def _own(part: Any, extra: Extra | None) -> Any:
    if extra is None or extra is WITH_ID or extra is WITHOUT_ID or extra.dialect != NAME:
        return part
    if not (extra.form or extra.hints or extra.fields or extra.absent):
        return part
    fields = part if isinstance(part, dict) else as_fields(part)
    inner, came_as = _INNER if "functionCall" in fields else _INNER_RESULT
    written = own_call(fields, extra, inner, came_as)
    signature = fields.get("thoughtSignature")
    if signature and "thoughtSignature" in extra.absent:
        written["thought_signature"] = signature
    elif signature and not written.get("thoughtSignature"):
        written["thoughtSignature"] = signature
    return written


def _encode_block(block: Text | Media | Reasoning) -> Any:
    if type(block) is Text and block.seal is None:
        return _own(wire.TextPart(block.text), block.extra)
    part = write_part(block)
    return part if type(part) is Raw else _own(part, block.extra)


def _encode_result(call: AnsweredCall, contents: _Contents, call_id: str) -> None:
    done = call.completion
    part: Any = write_result(call.name, done.text, done, call_id, failed=done.is_error)
    extra = own(done.extra, NAME)
    if extra is not None and _is_result_of(extra, done):
        part = _own(part, extra)
    contents.add(part, done.extra)
    for media in done.media:
        if stands_beside(media):
            contents.add(media_part(media))


def _is_result_of(extra: Extra, done: Completion) -> bool:
    """Whether what is kept of a result is of this very one."""
    given = extra.form.get("functionResponse", extra.form.get("function_response"))
    return not isinstance(given, dict) or completion_text(read_result(given, "functionResponse")) == done.text


# The other way


def recognises(body: Mapping[str, Any]) -> float:
    contents = body.get("contents")
    if isinstance(contents, dict):
        contents = [contents]
    if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
        return 0.0
    if any("parts" in content for content in contents):
        return 1.0
    return 0.5 if "messages" not in body and "input" not in body else 0.0


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    fitting = Fitting(NAME)
    body = _with_fitted_settings(body, fitting)
    options = decode_options(body)
    origin = Origin(NAME, model=options.model)
    messages: list[Message] = []
    uneven: dict[int, int] = {}
    try_fast = fast_paths.enabled()
    contents = body.get("contents")
    single = isinstance(contents, (str, dict))  # the server takes one for a list of one
    before: Any = None
    given = [contents] if single else items(contents, "contents")
    for index, content in enumerate(given):
        fast = read_fast(content, origin) if try_fast else None
        read = [fast] if fast is not None else _read_fitted(content, f"contents[{index}]", origin, fitting)
        role = read[-1].speaker
        if role == before and role != "tool" and read[0].blocks:  # we would write one content of both
            extra = read[0].blocks[0].extra
            if extra is None or extra.container is None:
                read[0] = structs.replace(read[0], blocks=begun_blocks(read[0].blocks, Extra(NAME)))
        before = role
        messages += read
        if len(read) != 1:
            uneven[index] = len(read)
    system = read_system(field(body, "systemInstruction"))
    system, rest = take_system(system, messages)  # not a role of this wire, but what it means is plain
    leading = len(messages) - len(rest)
    return DecodedRequest(
        messages=rest,
        system=system,
        tools=read_once(body.get("tools"), NAME, lambda: decode_tools(body)),
        options=options,
        leading=leading,
        starts=starts_of(len(given), uneven)[leading:],
        repairs=tuple(fitting.repairs),
    )


def _read_fitted(content: Any, path: str, origin: Origin, fitting: Fitting) -> list[Message]:
    # Google takes a text for a content.
    given = content if isinstance(content, str) else CONTENT.fit(content, path, fitting)
    return list(read_content(content if given is UNFIT else given, path, origin))


def _with_fitted_settings(body: Mapping[str, Any], fitting: Fitting) -> Mapping[str, Any]:
    """The request with its system prompt and tools as the wire takes them."""
    changed: dict[str, Any] = {}
    for name in ("systemInstruction", "system_instruction"):
        if body.get(name) is not None:
            changed[name] = SYSTEM.fit(body[name], name, fitting)
    if body.get("tools") is not None:
        changed["tools"] = fit_tools(TOOLS, body["tools"], fitting)
    if all(body[name] is value for name, value in changed.items()):
        return body
    return {name: value for name, value in {**body, **changed}.items() if value is not UNFIT}
