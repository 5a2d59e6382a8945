"""Histories as clients of each wire send them: legal in form, and however broken in what they say.

Ids are empty, repeated or illegal, results have no call or come twice, calls have no result, turns begin and end anywhere.
Every text holds a mark of its own, so that what is lost can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from hypothesis import strategies as st

from strategies.odd_messages import IMAGE, odd_messages

IDS = (
    "call_1",
    "call_1",
    "call_2",
    "call_3",
    "toolu_01",
    "functions.weather:0",
    "a|b",
    "x" * 60,
    "",
    "abcDEF123",
)
NAMES = ("weather", "weather", "read.file", "näme", "1st", "a" * 90)
ARGUMENTS = (
    '{"city": "Rome"}',
    "{}",
    "",
    '{"cut": "o',
    "[1]",
    '{"city": "\\ud83d"}',
    '{"a": {"b": [1, null]}}',
    '{"big": 123456789012345678901234567890, "small": 1e-300, "large": 1e300}',
    '{"nul": "a\\u0000b", "\\u0000": "\U0001f600"}',
)


class ClientCall(NamedTuple):
    """A call as it stands in a history."""

    id: str
    name: str
    arguments: str

    @property
    def object(self) -> dict[str, Any]:
        """For wires whose arguments are objects."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ClientMove(NamedTuple):
    """One thing that somebody did."""

    kind: str
    """user, image, note, model, results or odd."""
    text: str = ""
    thought: str = ""
    sealed: bool = False
    calls: tuple[ClientCall, ...] = ()
    odd: int = 0
    """Which of the wire's odd messages it is."""


_calls = st.builds(ClientCall, st.sampled_from(IDS), st.sampled_from(NAMES), st.sampled_from(ARGUMENTS))
_padding = st.sampled_from(("", "", " ", "\n", "✓", "```"))


def client_moves(*, seals: bool = False, max_size: int = 7) -> st.SearchStrategy[list[ClientMove]]:
    """`seals`: also reasoning that bears a seal of unknown make. Something is in it always."""
    return _moves(seals=seals, max_size=max_size).filter(_has_content)


def _has_content(moves: list[ClientMove]) -> bool:
    return any(move.text.strip() or move.calls or move.kind == "image" for move in moves)


@st.composite
def _moves(draw: st.DrawFn, *, seals: bool, max_size: int) -> list[ClientMove]:
    moves: list[ClientMove] = []
    kinds = draw(
        st.lists(
            st.sampled_from(("user", "user", "model", "model", "results", "results", "note", "image", "odd")),
            min_size=1,
            max_size=max_size,
        )
    )
    for number, kind in enumerate(kinds):
        text = draw(st.sampled_from((f"mark{number}", f"mark{number}", ""))) + draw(_padding)
        if kind == "model":
            thought = draw(st.sampled_from(("", "", f"thought{number}")))
            calls = tuple(draw(st.lists(_calls, max_size=3)))
            moves.append(ClientMove(kind, text, thought, seals and draw(st.booleans()), calls))
        elif kind == "results":
            # Mostly for calls that were made just before.
            made = moves[-1].calls if moves and moves[-1].kind == "model" else ()
            fitting = draw(st.booleans())
            calls = tuple(draw(st.permutations(made))) if made and fitting else ()
            calls = calls or tuple(draw(st.lists(_calls, min_size=1, max_size=3)))
            moves.append(ClientMove(kind, text, calls=calls))
        elif kind == "odd":
            moves.append(ClientMove(kind, odd=draw(st.integers(0, 30))))
        else:
            moves.append(ClientMove(kind, text))
    return moves


def marks_in(moves: list[ClientMove]) -> set[str]:
    """The marks of texts that no model may be denied without a report."""
    return {move.text.strip(" \n✓`") for move in moves} - {""}


Speller = Callable[[list[ClientMove]], list[Any]]


def _chat(moves: list[ClientMove], *, thoughts: bool = False) -> list[Any]:
    messages: list[Any] = []
    for move in moves:
        match move.kind:
            case "user":
                messages.append({"role": "user", "content": move.text})
            case "note":
                messages.append({"role": "system", "content": move.text})
            case "image":
                url = {"url": f"data:image/png;base64,{IMAGE}"}
                parts = [{"type": "text", "text": move.text or "?"}, {"type": "image_url", "image_url": url}]
                messages.append({"role": "user", "content": parts})
            case "model":
                thought = {"reasoning_content": move.thought} if thoughts and move.thought else {}
                messages.append({**_assistant(move), **thought})
            case _:
                messages += [
                    {"role": "tool", "tool_call_id": call.id, "content": move.text} for call in move.calls
                ]
    return messages


def _assistant(move: ClientMove) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in move.calls
    ]
    message: dict[str, Any] = {"role": "assistant", "content": move.text or (None if calls else "")}
    return {**message, **({"tool_calls": calls} if calls else {})}


def _mistral(moves: list[ClientMove]) -> list[Any]:
    messages = _chat(moves)
    names = iter([call.name for move in moves if move.kind == "results" for call in move.calls])
    for message in messages:
        if message["role"] == "tool":
            message["name"] = next(names)
        if isinstance(message["content"], list):
            message["content"][1]["image_url"] = message["content"][1]["image_url"]["url"]
    return messages


def _ollama(moves: list[ClientMove]) -> list[Any]:
    messages: list[Any] = []
    for move in moves:
        match move.kind:
            case "user" | "note":
                role = "user" if move.kind == "user" else "system"
                messages.append({"role": role, "content": move.text})
            case "image":
                messages.append({"role": "user", "content": move.text, "images": [IMAGE]})
            case "model":
                calls = [{"function": {"name": call.name, "arguments": call.object}} for call in move.calls]
                messages.append(
                    {
                        "role": "assistant",
                        "content": move.text,
                        **({"thinking": move.thought} if move.thought else {}),
                        **({"tool_calls": calls} if calls else {}),
                    }
                )
            case _:
                messages += [
                    {"role": "tool", "tool_name": call.name, "content": move.text} for call in move.calls
                ]
    return messages


def _anthropic(moves: list[ClientMove]) -> list[Any]:
    messages: list[Any] = []
    for move in moves:
        text: list[Any] = [{"type": "text", "text": move.text}] if move.text else []
        match move.kind:
            case "user" | "note":
                messages.append({"role": "user", "content": move.text})
            case "image":
                source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
                messages.append({"role": "user", "content": [*text, {"type": "image", "source": source}]})
            case "model":
                thought = {"type": "thinking", "thinking": move.thought, "signature": "c29tZWJvZHkncw=="}
                content = [*([thought] if move.thought and move.sealed else []), *text]
                content += [
                    {"type": "tool_use", "id": call.id, "name": call.name, "input": call.object}
                    for call in move.calls
                ]
                messages.append({"role": "assistant", "content": content})
            case _:
                results = [
                    {"type": "tool_result", "tool_use_id": call.id, "content": move.text}
                    for call in move.calls
                ]
                messages.append({"role": "user", "content": results})
    return messages


def _gemini(moves: list[ClientMove]) -> list[Any]:
    contents: list[Any] = []
    for move in moves:
        text: list[Any] = [{"text": move.text}] if move.text else []
        match move.kind:
            case "user" | "note":
                contents.append({"role": "user", "parts": [{"text": move.text}]})
            case "image":
                data = {"mimeType": "image/png", "data": IMAGE}
                contents.append({"role": "user", "parts": [*text, {"inlineData": data}]})
            case "model":
                parts = [*([{"text": move.thought, "thought": True}] if move.thought else []), *text]
                for call in move.calls:
                    held = {"name": call.name, "args": call.object, **({"id": call.id} if call.id else {})}
                    seal = {"thoughtSignature": "c29tZWJvZHkncw=="} if move.sealed else {}
                    parts.append({"functionCall": held, **seal})
                contents.append({"role": "model", "parts": parts})
            case _:
                results = [
                    {
                        "name": call.name,
                        "response": {"output": move.text},
                        **({"id": call.id} if call.id else {}),
                    }
                    for call in move.calls
                ]
                contents.append({"role": "user", "parts": [{"functionResponse": one} for one in results]})
    return contents


def _converse(moves: list[ClientMove]) -> list[Any]:
    messages: list[Any] = []
    for move in moves:
        text: list[Any] = [{"text": move.text}] if move.text else []
        match move.kind:
            case "user" | "note":
                messages.append({"role": "user", "content": [{"text": move.text}]})
            case "image":
                shown = {"image": {"format": "png", "source": {"bytes": IMAGE}}}
                messages.append({"role": "user", "content": [*text, shown]})
            case "model":
                signed = {"text": move.thought, "signature": "c29tZWJvZHkncw=="}
                thought = {"reasoningContent": {"reasoningText": signed}}
                content = [*([thought] if move.thought and move.sealed else []), *text]
                content += [
                    {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.object}}
                    for call in move.calls
                ]
                messages.append({"role": "assistant", "content": content})
            case _:
                results = [
                    {"toolResult": {"toolUseId": call.id, "content": [{"text": move.text}]}}
                    for call in move.calls
                ]
                messages.append({"role": "user", "content": results})
    return messages


def _responses(moves: list[ClientMove]) -> list[Any]:
    items: list[Any] = []
    for move in moves:
        match move.kind:
            case "user":
                items.append({"role": "user", "content": move.text})
            case "note":
                items.append({"role": "developer", "content": move.text})
            case "image":
                parts = [
                    {"type": "input_text", "text": move.text},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
                ]
                items.append({"role": "user", "content": parts})
            case "model":
                if move.sealed:
                    items.append(
                        {"type": "reasoning", "summary": [], "encrypted_content": "c29tZWJvZHkncw=="}
                    )
                if move.text:
                    items.append({"role": "assistant", "content": move.text})
                items += [
                    {
                        "type": "function_call",
                        "call_id": call.id,
                        "name": call.name,
                        "arguments": call.arguments,
                    }
                    for call in move.calls
                ]
            case _:
                items += [
                    {"type": "function_call_output", "call_id": call.id, "output": move.text}
                    for call in move.calls
                ]
    return items


def _interactions(moves: list[ClientMove]) -> list[Any]:
    steps: list[Any] = []
    for move in moves:
        said = {"type": "text", "text": move.text}
        match move.kind:
            case "user" | "note":
                steps.append({"type": "user_input", "content": [said]})
            case "image":
                image = {"type": "image", "data": IMAGE, "mime_type": "image/png"}
                steps.append({"type": "user_input", "content": [said, image]})
            case "model":
                if move.text:
                    steps.append({"type": "model_output", "content": [said]})
                steps += [
                    {"type": "function_call", "id": call.id, "name": call.name, "arguments": call.arguments}
                    for call in move.calls
                ]
            case _:
                steps += [
                    {"type": "function_result", "call_id": call.id, "result": move.text}
                    for call in move.calls
                ]
    return steps


def _speller(wire: str, spell: Speller) -> Speller:
    """Spells the odd messages of a wire, too."""

    def spelled(moves: list[ClientMove]) -> list[Any]:
        history: list[Any] = []
        for odd, group in groupby(moves, key=lambda move: move.kind == "odd"):
            if odd:
                history += [deepcopy(message) for move in group for message in odd_messages(wire, move.odd)]
            else:
                history += spell(list(group))
        return history

    return spelled


SPELLERS: Mapping[str, Speller] = {
    wire: _speller(wire, spell)
    for wire, spell in (
        ("openai_chat", _chat),
        ("mistral", _mistral),
        ("ollama", _ollama),
        ("anthropic", _anthropic),
        ("gemini", _gemini),
        ("gemini_interactions", _interactions),
        ("openai_responses", _responses),
        ("converse", _converse),
    )
}
THINKING_CHAT: Speller = _speller("openai_chat", partial(_chat, thoughts=True))
"""For servers of the Chat wire that give their clients thoughts, and take them back."""
