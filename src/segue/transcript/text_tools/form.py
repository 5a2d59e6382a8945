"""A way of calling tools in plain text, as a value: instructions, past calls and results, and a reply while it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from segue.conversation.tools import Named, ToolSpec
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.conversation.options import Options

Section: TypeAlias = Literal["text", "thought", "action", "input", "answer", "ignored"]
ParseProblem: TypeAlias = Literal["bad_json", "not_an_object", "no_action_name", "cut_off", "nothing_to_do"]


@final
class Offer(Struct, frozen=True, kw_only=True):
    """The tools of one request, and how free the model is to call them."""

    tools: tuple[ToolSpec, ...] = ()
    must_call: bool = False
    named: str = ""
    """The one tool that must be called; empty if any will do."""
    answer: Mapping[str, Any] | None = None
    """JSON Schema of an answer in words; None if it is free."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


def offer_of(tools: Sequence[ToolSpec], options: Options) -> Offer:
    choice = options.tool_choice
    return Offer(
        tools=() if choice == "none" else tuple(tool for tool in tools if tool.kind != "server"),
        must_call=choice not in (None, "auto", "none"),
        named=choice.name if isinstance(choice, Named) else "",
        answer=options.response_schema,
    )


@final
class ParsedReply(Struct, frozen=True, kw_only=True):
    """What a reply holds. A final answer ends the turn, also beside an action."""

    thought: str = ""
    action: str | None = None
    action_input: dict[str, Any] | None = None
    final_answer: str | None = None
    problem: ParseProblem | None = None
    """Why the action cannot be taken; None if it can, or if there is none."""
    raw_input: str = ""
    """The action input as it was written, without a fence around it."""

    @property
    def calls(self) -> bool:
        """Whether a tool is to be called."""
        return self.action is not None and self.final_answer is None and self.problem is None


class ReplyScanner(Protocol):
    """Divides a reply into sections as its text arrives. Where the text is cut makes no difference."""

    def feed(self, text: str) -> list[tuple[Section, str]]:
        """What is known to belong to which section by now."""
        ...

    def close(self) -> list[tuple[Section, str]]: ...

    def parsed(self, *, cut_off: bool = False) -> ParsedReply:
        """The whole reply. `cut_off`: it ended before the model was done."""
        ...

    def action_text(self) -> str:
        """The action as the model wrote it, also if it cannot be taken."""
        ...


@final
class Form(Struct, frozen=True, kw_only=True):
    """One way of calling tools in plain text."""

    instructions: Callable[[Offer], str]
    write_reply: Callable[[Sequence[str], Sequence[str], Sequence[AnsweredCall]], str]
    """A message of the model from its thoughts, texts and calls."""
    write_results: Callable[[Sequence[AnsweredCall]], str]
    new_scanner: Callable[[Offer], ReplyScanner]
    writes_thoughts: bool = False
    """Whether thoughts are part of the text; else they stay blocks, which the target takes or not."""
    single_calls: bool = False
    """Whether each call stands in a message of its own, followed by its result."""
    stop: tuple[str, ...] = ()
    """Where a model must stop, so that it does not make up what its tool answers."""
