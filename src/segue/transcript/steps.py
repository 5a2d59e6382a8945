"""A conversation as one target accepts it.

A model's step holds its calls together with their completions, so a call without a result, a result without a call,
or a result in the wrong place cannot be written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Media, Origin, Reason, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Conversation, Message
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Iterator


@final
class Completion(Struct, frozen=True, gc=False):
    """How a call ended, as text and media that the target takes."""

    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()
    reason: Reason | None = None
    """Set when no tool returned this."""
    extra: Extra | None = None


@final
class AnsweredCall(Struct, frozen=True, gc=False):
    """A call and its completion, under the id and name the target knows them by."""

    id: str
    name: str
    arguments: str
    """The JSON text of an object."""
    completion: Completion
    call_id: str
    """The canonical id."""
    seal: Seal | None = None
    extra: Extra | None = None


StepBlock: TypeAlias = Text | Reasoning | Media | AnsweredCall


@final
class UserStep(Struct, frozen=True, gc=False):
    """A message of the user, or of the operator when it is an instruction."""

    blocks: tuple[Text | Media, ...]
    instruction: bool = False


@final
class ModelStep(Struct, frozen=True, gc=False):
    """A message of the model; completions of its calls follow at once, in call order."""

    blocks: tuple[StepBlock, ...]

    @property
    def calls(self) -> tuple[AnsweredCall, ...]:
        return tuple(block for block in self.blocks if type(block) is AnsweredCall)


Step: TypeAlias = UserStep | ModelStep


class Transcript(Struct, frozen=True):
    """The steps to send, the repairs it took, and the target."""

    steps: tuple[Step, ...]
    repairs: tuple[Repair, ...] = ()
    system: str = ""
    target: Origin = Origin()
    names: dict[str, str] = {}
    """Canonical tool name → the name the target knows it by, for every tool offered or called."""
    prefix: Any = None
    """The running fingerprint of the steps, for targets that bind seals to them; opaque, and continued lazily."""
    resume: Any = None
    """What the next render needs to continue from here; opaque, and no part of the transcript's value."""

    @property
    def fingerprint(self) -> str:
        """Of all steps, for targets that bind seals to them: a reply's seals record it. Else empty."""
        if self.prefix is None:
            return ""
        for step in self.steps[self.prefix.length :]:
            if self.resume is not None:
                self.resume.keep(self.prefix)
            self.prefix.add(step)
        return str(self.prefix.fingerprint)

    def conversation(self) -> Conversation:
        """These steps as a conversation with the target itself: what its API would give back."""
        return Conversation(tuple(self._messages()), self.system)

    def _messages(self) -> Iterator[Message]:
        for step in self.steps:
            if type(step) is UserStep:
                yield Message("user", step.blocks, instruction=step.instruction)
                continue
            blocks = tuple(_as_block(block) for block in step.blocks)
            yield Message("model", blocks, self.target)
            if calls := step.calls:
                yield Message("tool", tuple(_answer(call) for call in calls))


def _as_block(block: StepBlock) -> Text | Reasoning | Media | ToolCall:
    if type(block) is not AnsweredCall:
        return block
    return ToolCall(
        "", block.name, raw=block.arguments, native_id=block.id, seal=block.seal, extra=block.extra
    )


def _answer(call: AnsweredCall) -> ToolResult:
    done = call.completion
    return ToolResult(
        "",
        call.name,
        output=None if done.is_error else done.text,
        error=done.text if done.is_error else None,
        complete=True,
        media=done.media,
        native_id=call.id,
        reason=done.reason,
        extra=done.extra,
    )
