"""A conversation as any program's session can hold it: prompts, and replies whose calls have their results with them."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult, is_real
from segue.conversation.json_text import parse_json
from segue.errors import TranscriptError
from segue.interop.agents.session_draft import is_legal_id, new_id
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.blocks.value_text import arguments_of, json_of
from segue.transcript.blocks.value_text import text_of as value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.message import Conversation, Message
    from segue.interop.agents.tool_names import ToolNames

HISTORY: Final = (
    "Calls in it are history. Use only tools that you are offered now; read a file again before you edit it."
)
"""How the note ends that a model gets first where the calls are those of another program."""
BEGINNING: Final = "(The conversation begins with a reply.)"
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LONGEST: Final = 4000
"""How many characters of a call that becomes text are kept."""


@final
class Prompt(Struct, frozen=True):
    """What the user wrote, in order: texts and images."""

    parts: tuple[Text | Media, ...]

    @property
    def text(self) -> str:
        return "\n".join([part.text for part in self.parts if type(part) is Text])

    @property
    def media(self) -> tuple[Media, ...]:
        return tuple([part for part in self.parts if type(part) is Media])


@final
class StoredCall(Struct, frozen=True, kw_only=True):
    """A call and how it ended."""

    id: str
    name: str
    arguments: dict[str, Any]
    output: str
    failed: bool = False
    media: tuple[Media, ...] = ()


@final
class ModelReply(Struct, frozen=True):
    """A reply of the model: a text, and the calls after it."""

    text: str
    calls: tuple[StoredCall, ...] = ()
    model: str = ""


Step: TypeAlias = Prompt | ModelReply


@final
class SessionSteps(Struct, frozen=True):
    """What the target sees, and what it does not see, in words."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


def steps_of(conversation: Conversation, names: ToolNames) -> SessionSteps:
    """The conversation must be repaired: each call has one result, right behind its message."""
    return _Reader(names).read(conversation.messages)


class _Reader:
    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._used: set[str] = set()
        self._hidden = 0
        self._as_text: dict[str, None] = {}
        self._files = 0
        self._images = 0

    def read(self, messages: Sequence[Message]) -> SessionSteps:
        steps: list[Step] = []
        for index, message in enumerate(messages):
            match message.speaker:
                case "user" if not message.instruction:
                    if (prompt := self._prompt(message)).parts:
                        steps.append(prompt)
                case "model":
                    after = messages[index + 1] if index + 1 < len(messages) else None
                    _append(steps, self._reply(message, after))
                case _:
                    pass  # results went with their calls, and a program writes its own instructions
        kept = [step for step in steps if not _is_empty(step)]
        if kept and type(kept[0]) is ModelReply:
            kept.insert(0, Prompt((Text(BEGINNING),)))  # some providers want a user message first
        return SessionSteps(tuple(kept), tuple(self._notes()))

    def _notes(self) -> list[str]:
        notes = []
        if self._hidden:
            notes.append(f"{_several(self._hidden, 'thought')} of other models")
        if self._as_text:
            notes.append(f"calls of tools that it does not have become text: {', '.join(self._as_text)}")
        if self._files:
            notes.append(f"{_several(self._files, 'file')} that cannot be shown as an image: named only")
        if self._images:
            notes.append(
                f"{_several(self._images, 'image')} of replies, or of calls that became text: named only"
            )
        return notes

    def _prompt(self, message: Message) -> Prompt:
        parts = [self._part(block) for block in message.blocks if type(block) is Text or type(block) is Media]
        return Prompt(tuple(part for part in parts if type(part) is Media or self._is_prompt(part.text)))

    def _is_prompt(self, text: str) -> bool:
        return bool(text.strip()) and self._names.is_prompt(text) and HISTORY not in text

    def _part(self, block: Text | Media) -> Text | Media:
        if type(block) is Media and not _is_image(block):
            self._files += 1
            return Text(_named(block))
        # Without what its own wire has beside it.
        return Text(block.text) if type(block) is Text else structs.replace(block, extra=None)

    def _only_named(self, media: Media) -> str:
        if _is_image(media):
            self._images += 1
        else:
            self._files += 1
        return _named(media)

    def _reply(self, message: Message, after: Message | None) -> ModelReply:
        results = {
            block.call_id: block
            for block in (after.blocks if after is not None and after.speaker == "tool" else ())
            if type(block) is ToolResult
        }
        texts: list[str] = []
        calls: list[StoredCall] = []
        for block in message.blocks:
            if type(block) is Text:
                texts.append(block.text)
            elif type(block) is Code:
                texts.append(f"```{block.language}\n{block.code}\n```")
            elif type(block) is Media:
                texts.append(self._only_named(block))
            elif type(block) is Reasoning:
                self._hidden += 1
            elif type(block) is ToolCall:
                call = self._call(block, results.get(block.id))
                if type(call) is str:
                    texts.append(call)
                elif type(call) is StoredCall:
                    calls.append(call)
        model = message.origin.model if message.origin is not None else ""
        return ModelReply("\n\n".join([text for text in texts if text.strip()]), tuple(calls), model)

    def _call(self, call: ToolCall, result: ToolResult | None) -> StoredCall | str:
        arguments = _arguments(call)
        output, failed = _output(result)
        output = self._names.unwrapped(output)
        target = self._names.translate(call.name, arguments)
        held = result.media if result is not None else ()
        named = [self._only_named(one) for one in held if target is None or not _is_image(one)]
        output = "\n".join([*([output] if output else []), *named])
        if target is None:
            self._as_text[call.name] = None
            shown = f"[earlier tool {call.name}: {json_of(arguments)} → {output}]"
            return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…]"
        given = call.native_id if is_legal_id(call.native_id) else new_id("call_", call.native_id or call.id)
        while given in self._used:
            given = new_id("call_", given)
        self._used.add(given)
        media = tuple(structs.replace(one, extra=None) for one in held if _is_image(one))
        return StoredCall(
            id=given, name=target[0], arguments=target[1], output=output, failed=failed, media=media
        )


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _named(media: Media) -> str:
    return f"[{media.kind}: {media.name or media.url or media.mime or 'without a name'}]"


def _is_image(media: Media) -> bool:
    """Whether every provider takes it: an agent sends it as it stands, and a refused image kills the session."""
    return media.kind == "image" and media.mime in _IMAGES and _is_base64(media.data)


def _is_base64(data: str) -> bool:
    try:
        return bool(b64decode(data, validate=True))
    except ValueError:
        return False


def _append(steps: list[Step], reply: ModelReply) -> None:
    """Replies that follow each other without calls between them are one to every program."""
    last = steps[-1] if steps else None
    if type(last) is ModelReply and not last.calls:
        text = "\n\n".join([part for part in (last.text, reply.text) if part])
        steps[-1] = structs.replace(reply, text=text)
    else:
        steps.append(reply)


def _is_empty(step: Step) -> bool:
    return type(step) is ModelReply and not step.text and not step.calls


def _arguments(call: ToolCall) -> dict[str, Any]:
    text, _ = arguments_of(call)
    try:
        parsed = parse_json(text.encode())
    except TranscriptError:
        return {"arguments": text}
    return parsed if isinstance(parsed, dict) else {"arguments": parsed}


def _output(result: ToolResult | None) -> tuple[str, bool]:
    if result is None or not is_real(result):
        return WORDING[result.reason if result is not None and result.reason else "interrupted"], True
    if result.error is not None:
        return result.error, True
    return value_text(result.output) if result.output is not None else "", False
