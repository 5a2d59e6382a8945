"""Calls as bare JSON objects: a reply is either words or one object, and its first character decides which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from segue.transcript.blocks.value_text import json_of
from segue.transcript.text_tools.form import Form, ParsedReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.tools import ToolSpec
    from segue.transcript.steps import AnsweredCall
    from segue.transcript.text_tools.form import Offer, Section

FENCE = "```json\n"


def list_tools(tools: Sequence[ToolSpec]) -> str:
    """One JSON object in each line."""
    return "\n".join(json_of(_function(tool)) for tool in tools)


def _function(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "parameters": parameters_of(tool)}


def parameters_of(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "object", "properties": {}} if tool.parameters is None else tool.parameters


def _instructions(offer: Offer) -> str:
    # Found by trial with a model of 1.5 billion parameters: an example helps it more than any exhortation.
    otherwise = "" if offer.must_call else " When none of them fits, reply in words."
    return (
        f"# Functions\n\n{list_tools(offer.tools)}\n\n"
        "When one of these functions can serve the request, you call it: your whole reply is then one JSON object,\n"
        '{"name": "<function>", "arguments": {<its arguments>}}\n'
        "For example, with a function lookup(word), you would reply to \"What does 'arid' mean?\" with\n"
        '{"name": "lookup", "arguments": {"word": "arid"}}\n'
        f"Never explain how to call a function.{otherwise}"
    )


def _write_reply(thoughts: Sequence[str], texts: Sequence[str], calls: Sequence[AnsweredCall]) -> str:
    del thoughts
    objects = [f'{{"name": {json_of(call.name)}, "arguments": {call.arguments}}}' for call in calls]
    return "\n".join(filter(None, (*texts, *objects)))


def _write_results(calls: Sequence[AnsweredCall]) -> str:
    return "\n".join(f"The function {call.name} returned: {call.completion.text}" for call in calls)


def _write_results_and_ask(calls: Sequence[AnsweredCall]) -> str:
    results = _write_results(calls)
    return (
        f"{results}\n\nNow answer my question with that in plain words, or call another function if you must."
    )


class _JsonScanner:
    """Holds back what may still become a call until that is settled."""

    def __init__(self, offer: Offer) -> None:
        self._names = offer.names
        self._pieces: list[str] = []
        self._is_text = False

    def feed(self, text: str) -> list[tuple[Section, str]]:
        self._pieces.append(text)
        if self._is_text:
            return [("text", text)]
        held = "".join(self._pieces)
        start = held.lstrip()
        if not start or start.startswith("{") or FENCE.startswith(start[: len(FENCE)]):
            return []
        self._is_text = True
        return [("text", held)]

    def close(self) -> list[tuple[Section, str]]:
        # What was cut off before its end is no call, and half a call is never passed on.
        reply = self.parsed()
        return (
            [] if self._is_text or reply.calls or not reply.final_answer else [("text", reply.final_answer)]
        )

    def parsed(self, *, cut_off: bool = False) -> ParsedReply:
        del cut_off
        text = "".join(self._pieces)
        call = None if self._is_text else _parse_call(text.strip().removeprefix(FENCE).removesuffix("\n```"))
        if call is None or call.name not in self._names:
            return ParsedReply(final_answer=text)
        raw = bytes(call.arguments).decode()
        return ParsedReply(action=call.name, action_input=msgspec.json.decode(raw), raw_input=raw)

    def action_text(self) -> str:
        return "".join(self._pieces)


class _CallObject(Struct, forbid_unknown_fields=True):
    name: str
    arguments: msgspec.Raw


def _parse_call(text: str) -> _CallObject | None:
    try:
        return msgspec.json.decode(text, type=_CallObject)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


JSON_CALLS = Form(
    instructions=_instructions,
    write_reply=_write_reply,
    write_results=_write_results_and_ask,
    new_scanner=_JsonScanner,
)
RECORD = structs.replace(JSON_CALLS, write_results=_write_results)
"""Past calls and results for a model that is offered no tools now: its texts stay as they are."""
