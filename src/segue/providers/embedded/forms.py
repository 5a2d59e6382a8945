"""The forms in which an embedded model calls tools, each with the grammar (GBNF) that holds its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.errors import UsageError
from segue.providers.embedded.grammar import Grammar, quoted
from segue.transcript.blocks.value_text import json_of
from segue.transcript.text_tools.form import Form, Offer, offer_of
from segue.transcript.text_tools.json_calls import JSON_CALLS, parameters_of
from segue.transcript.text_tools.react import SHORT_REACT

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec

FormName: TypeAlias = Literal["json", "react"]

_ANYTHING = "[^\\x00]*"


@final
class ConstrainedForm(Struct, frozen=True):
    """A form, and the grammar of the replies to an offer in it."""

    form: Form
    grammar: Callable[[Offer], str]


def _json_grammar(offer: Offer) -> str:
    grammar = Grammar()
    calls = [f'{_start_of_call(tool)} {grammar.value(parameters_of(tool))} "}}"' for tool in offer.tools]
    call = grammar.rule(" | ".join(calls))
    # Coding models like to fence their JSON: better a call in a fence than words about a call.
    call = grammar.rule(rf'{call} | "```json\n" {call} "\n```"')
    if offer.must_call:
        return grammar.text(call)
    if offer.answer is not None:
        return grammar.text(f"{call} | {grammar.value(offer.answer)}")
    words = rf'[^{{`<\[ \t\r\n] {_ANYTHING} | "```" [^j] {_ANYTHING}'
    return grammar.text(f"{call} | {words}")


def _start_of_call(tool: ToolSpec) -> str:
    return quoted(f'{{"name": {json_of(tool.name)}, "arguments": ')


def _react_grammar(offer: Offer) -> str:
    grammar = Grammar()
    actions = [
        f'"Action: " {quoted(tool.name)} "\\nAction Input: " {grammar.value(parameters_of(tool))}'
        for tool in offer.tools
    ]
    action = grammar.rule(" | ".join(actions))
    answer = _ANYTHING if offer.answer is None else grammar.value(offer.answer)
    ending = action if offer.must_call else f'({action} | "Final Answer: " {answer})'
    return grammar.text(rf'"Thought: " [^\n\x00]{{1,200}} "\n" {ending}')


FORMS: Mapping[FormName, ConstrainedForm] = {
    "json": ConstrainedForm(JSON_CALLS, _json_grammar),
    "react": ConstrainedForm(SHORT_REACT, _react_grammar),
}


def offer_for(tools: tuple[ToolSpec, ...], options: Options) -> Offer:
    """What a request offers. A tool that must be called is offered alone."""
    offer = offer_of(tools, options)
    if not offer.named:
        return offer
    alone = tuple(tool for tool in offer.tools if tool.name == offer.named)
    if not alone:
        raise UsageError(
            f'The model must call "{offer.named}", which is not offered.',
            code="tool_not_offered",
            path="options.tool_choice",
            hint="Offer the tool, or choose another.",
        )
    return structs.replace(offer, tools=alone)


def reply_grammar(offer: Offer, form: ConstrainedForm) -> str | None:
    """The grammar of a reply; None if it is free."""
    if offer.tools:
        return form.grammar(offer)
    if offer.answer is None:
        return None
    grammar = Grammar()
    return grammar.text(grammar.value(offer.answer))
