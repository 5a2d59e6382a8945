"""A wire's own fields in a render: their own wire gets them back, for any other it is reported that they are not sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import structs

from segue.conversation.blocks import Code, Media, Reasoning, Text
from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable
from segue.transcript.drafts import Note
from segue.transcript.steps import UserStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.transcript.drafts import CallDraft
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import Rules
    from segue.transcript.steps import ModelStep, Step


_Shown = TypeVar("_Shown", bound=Text | Media | Code | Reasoning)


class HasExtra(Protocol):
    """A block, whichever it is."""

    @property
    def extra(self) -> Extra | None: ...


_B = TypeVar("_B", bound=HasExtra)


def travels(extra: Extra | None, dialect: str) -> bool:
    """Whether a value can go to a target with this, and nothing is to be reported."""
    return extra is None or extra.dialect == dialect or not extra.reported


def stays_in_place(
    rules: Rules, steps: list[Step], last_calls: int, blocks: Sequence[Text | Media | Code]
) -> bool:
    """Whether a system note in mid-conversation is sent where it stands."""
    if rules.instructions != "returned":
        return rules.instructions == "inline"
    extra = blocks[0].extra
    follows = bool(last_calls) or (bool(steps) and type(steps[-1]) is UserStep)
    came_so = extra is not None and extra.dialect == rules.target.dialect
    return came_so and follows and all(type(block) is Text for block in blocks)


def may_end(rules: Rules, step: ModelStep) -> bool:
    """Whether a model's step without calls may be the last. One that asks its own wire to be continued may."""
    if rules.ends_with_model:
        return True
    extra = step.blocks[0].extra
    if extra is None or extra.dialect != rules.target.dialect or extra.container is None:
        return False
    return bool(extra.container.fields)


def folded(blocks: Sequence[Text | Media]) -> list[Text | Media]:
    """A system note as a user's message, apart from others if it came apart."""
    extra = blocks[0].extra if blocks else None
    begins = None
    if extra is not None and extra.container is not None:
        begins = Extra(extra.dialect, container=Extra(extra.dialect))
    return [Text("<system>", None, begins), *uncontained(blocks), Text("</system>")]


def uncontained(blocks: Sequence[_Shown]) -> list[_Shown]:
    """Blocks that leave the message they came in: what was that message's own does not go with them."""
    return [
        structs.replace(block, extra=structs.replace(block.extra, container=None))
        if block.extra is not None and _begins(block)
        else block
        for block in blocks
    ]


def joined(before: Sequence[_Shown], behind: Sequence[_Shown]) -> list[_Shown]:
    """Blocks that were moved in front of the calls of their step, behind those that stood there.

    What began a message of its own becomes a part of the one with the calls: apart from it, it would leave the thoughts before it alone
    in a message that servers refuse. That message is another one now than it came as, so its form is not kept: it may say that there is
    no text.
    """
    if not any(_begins(block) for block in behind):
        return [*before, *behind]
    head = list(before)
    last = max((place for place, block in enumerate(head) if _begins(block)), default=None)
    if last is not None and (extra := head[last].extra) is not None and extra.container is not None:
        around = structs.replace(extra.container, form={}, absent=())
        head[last] = structs.replace(head[last], extra=structs.replace(extra, container=around))
    return [*head, *uncontained(behind)]


def _begins(block: HasExtra) -> bool:
    """Whether a block is the first of a message that came by itself."""
    return block.extra is not None and block.extra.container is not None


def losses(extra: Extra | None) -> Iterator[tuple[Kind, str]]:
    """What another wire does not get, by name."""
    if extra is None:
        return
    around = extra.container
    fields = [*(around.fields if around is not None else ()), *extra.fields]
    hints = [*(around.hints if around is not None else ()), *extra.hints]
    if fields:
        yield "fields_dropped", encodable(f"{extra.dialect}: {', '.join(fields)}")
    if hints:
        yield "hints_dropped", encodable(f"{extra.dialect}: {', '.join(hints)}")


def report_losses(extra: Extra | None, notes: list[Note], call: CallDraft) -> None:
    """Note what is lost of a call or its result."""
    notes += [
        Note(kind, call.message, call.block, call, decision=decision) for kind, decision in losses(extra)
    ]


def runs(blocks: tuple[_B, ...], dialect: str) -> Iterator[tuple[_B, ...]]:
    """The blocks of one step as the messages that they came in."""
    start = before = 0
    for position, block in enumerate(blocks):
        extra = block.extra
        if extra is not None and _begins(block) and extra.dialect == dialect and before > start:
            yield blocks[start:before]
            start = before
        # A thought that was put in front of a message belongs to what follows it.
        if type(block) is not Reasoning or extra is not None:
            before = position + 1
    yield blocks[start:]
