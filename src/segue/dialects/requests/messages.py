"""What several wires share in writing and reading the messages of a request."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Text, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.errors import unencodable
from segue.transcript.steps import UserStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Speaker
    from segue.conversation.options import Options
    from segue.transcript.steps import Completion, Step, Transcript


def check_target(transcript: Transcript, dialect: str, wire: str) -> None:
    """Refuse a transcript that was rendered for another dialect."""
    if transcript.target.dialect not in ("", dialect):
        raise unencodable(wire, f"what was rendered for {transcript.target.dialect}")


def model_field(transcript: Transcript, options: Options) -> dict[str, str]:
    """The model to ask; a request that came without one, since its address names it, gets none."""
    model = options.model or transcript.target.model
    came = options.own
    nameless = not model and came is not None and came.dialect == transcript.target.dialect
    return {} if nameless else {"model": model}


def leading_system(transcript: Transcript, dialect: str) -> tuple[str, int]:
    """The system prompt with the notes that lead the steps, and how many those are: what `take_system` reads back."""
    steps = transcript.steps
    leading = 0
    while leading < len(steps) - 1 and is_leading_note(steps[leading]):
        extra = steps[leading].blocks[0].extra
        if extra is not None and extra.dialect == dialect:
            break  # it came as a message of its own
        leading += 1
    notes = [
        join_texts([block.text for block in step.blocks if type(block) is Text]) for step in steps[:leading]
    ]
    return "\n\n".join(filter(None, (transcript.system, *notes))), leading


def is_leading_note(step: Step) -> bool:
    """Whether a step can be part of the system prompt, if it stands in front of all others."""
    return type(step) is UserStep and step.instruction and all(type(block) is Text for block in step.blocks)


def join_texts(texts: Iterable[str]) -> str:
    """Several texts as one, with a blank line where nothing else keeps them apart."""
    joined = ""
    for text in texts:
        apart = not joined or joined[-1].isspace() or text[:1].isspace()
        joined = f"{joined}{text}" if apart else f"{joined}\n\n{text}"
    return joined


_FAILED = "error:"


def completion_text(done: Completion, wire: str, index: int) -> str:
    """A result on a wire whose results are nothing but text."""
    if done.media:
        raise unencodable(wire, "media in a tool's result", index)
    return outcome_text(done)


def outcome_text(done: Completion) -> str:
    """What a result says on a wire that has no flag for failures. Nobody reads one from such a text: a result that merely begins with
    this word is none."""
    if done.is_error and done.reason is None and not done.text[:6].lower().startswith(_FAILED):
        return f"Error: {done.text}"
    return done.text


# The other way


def leading_messages(
    came: Extra | None, dialect: str, system: str, read: Callable[[dict[str, Any]], str]
) -> list[Any]:
    """The messages that the system prompt came in; none if it is another now, or of another wire."""
    around = came.container if came is not None and came.dialect == dialect else None
    given: list[Any] = around.form.get("messages", []) if around is not None else []
    return given if "\n\n".join(filter(None, map(read, given))) == system else []


def begun_blocks(blocks: tuple[Block, ...], around: Extra | None) -> tuple[Block, ...]:
    """The blocks of a message, the first of which has what is the message's own."""
    if around is None or not blocks:
        return blocks
    first, *others = blocks
    extra = first.extra if first.extra is not None else Extra(around.dialect)
    return (structs.replace(first, extra=structs.replace(extra, container=around)), *others)


def mark_beginnings(messages: list[Message], dialect: str) -> list[Message]:
    """The messages, with a mark where two of one speaker follow each other: we would write one of both."""
    marked = messages[:1]
    for before, message in pairwise(messages):
        if (
            before.speaker == message.speaker != "tool"
            and before.instruction == message.instruction
            and message.blocks
            and ((extra := message.blocks[0].extra) is None or extra.container is None)
        ):
            marked.append(structs.replace(message, blocks=begun_blocks(message.blocks, Extra(dialect))))
        else:
            marked.append(message)
    return marked


def split_by_speaker(blocks: Sequence[Block]) -> Iterator[Message]:
    """A user's message that holds tool results too, as one message for each run of blocks of one speaker."""
    run: list[Block] = []
    for block in blocks:
        if run and (type(block) is ToolResult) is not (type(run[-1]) is ToolResult):
            yield _run(run)
            run = []
        run.append(block)
    if run or not blocks:
        yield _run(run)


def _run(blocks: list[Block]) -> Message:
    return Message("tool" if blocks and type(blocks[0]) is ToolResult else "user", tuple(blocks))


def starts_of(count: int, uneven: Mapping[int, int]) -> tuple[int, ...]:
    """Where messages begin that so many were read as. `uneven`: the index of one that was not read as a single message → as how
    many."""
    return tuple([index for index in range(count) for _ in range(uneven.get(index, 1))]) if uneven else ()


def take_system(system: str, messages: list[Message]) -> tuple[str, tuple[Message, ...]]:
    """The system prompt with the notes that lead the messages, and the rest of them, which is never empty."""
    notes = [*takewhile(_is_note, messages[:-1])]
    texts = filter(None, (system, *(note.text for note in notes)))
    return "\n\n".join(texts), tuple(messages[len(notes) :])


def _is_note(message: Message) -> bool:
    return message.instruction and all(type(block) is Text for block in message.blocks)


def messages_of_items(
    decoded: Iterable[tuple[int, Speaker, Sequence[Block], bool]], origin: Origin
) -> tuple[list[Message], list[int]]:
    """The messages of a wire whose history is a list of items, and the index of the item with which each begins.

    Items of the model in a row are one message, and so are results in a row. `decoded`: of each item its index, speaker and blocks, and
    whether it is an instruction.
    """
    messages: list[Message] = []
    starts: list[int] = []
    speaker: Speaker = "user"
    run: list[Block] = []

    def end_run() -> None:
        if run:
            messages.append(Message(speaker, tuple(run), origin if speaker == "model" else None))
            run.clear()

    for index, who, blocks, instruction in decoded:
        if who != speaker or who == "user":
            end_run()
        if who == "user":
            messages.append(Message("user", tuple(blocks), instruction=instruction))
            starts.append(index)
        elif blocks:
            if not run:
                starts.append(index)
            speaker = who
            run += blocks
    end_run()
    return messages, starts
