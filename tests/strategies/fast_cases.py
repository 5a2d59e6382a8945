"""Histories and requests nearly as the fast paths take them: in good order, with a fault here and there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from segue.conversation.blocks import Block, Code, Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.transcript.rules import Rules
from strategies.histories import FOREIGN, values

SEAL = Seal(FOREIGN, "SEALED")
raw_ids = st.sampled_from(("", "a", "b", "call_1", "c0"))
tool_names = st.sampled_from(("read", "write", ""))
SHOWN: tuple[Block, ...] = (
    Text("hello"),
    Text("", SEAL),
    Media("image", url="https://x.invalid"),
    Code("1"),
)
shown = st.sampled_from(SHOWN)
THOUGHT: Block = Reasoning("hm", SEAL)


@st.composite
def answered_replies(draw: st.DrawFn) -> list[Message]:
    """A model's message and results for some of its calls from the first on, in one message or in several."""
    calls = [
        ToolCall(
            draw(raw_ids),
            draw(tool_names),
            draw(values),
            "{}",
            draw(raw_ids),
            draw(st.sampled_from((None, SEAL))),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    blocks: list[Block] = [*draw(st.lists(st.sampled_from((*SHOWN, THOUGHT)), max_size=2)), *calls]
    messages = [
        Message("model", tuple(draw(st.permutations(blocks))), draw(st.sampled_from((None, FOREIGN))))
    ]
    results = []
    for call in messages[0].calls[: draw(st.integers(0, 3))]:
        name = draw(st.sampled_from((call.name, call.name, "", "read")))
        output = draw(values)
        complete = draw(st.sampled_from((None, True)))
        results.append(ToolResult(call.id, name, output, complete=complete, native_id=call.native_id))
    cut = draw(st.integers(0, len(results)))
    return messages + [tool(*part) for part in (results[:cut], results[cut:]) if part]


@st.composite
def foreign_histories(draw: st.DrawFn) -> list[Message]:
    """Histories in good order, whose ids are used again or missing, and in which at most two messages changed place."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 4)):
            blocks = tuple(draw(st.lists(shown, min_size=1, max_size=2)))
            messages.append(Message("user", blocks, instruction=draw(st.booleans())))
        messages += draw(answered_replies())
    if draw(st.integers(0, 3)) == 0:
        one, other = (draw(st.integers(0, len(messages) - 1)) for _ in "ab")
        messages[one], messages[other] = messages[other], messages[one]
    return messages


texts = st.sampled_from(["a", "b c", "", " ", "é", "\ud800"])
outputs = st.sampled_from(["x", "x", "x", "", " ", "é", "\ud800", 5, None])
errors = st.sampled_from([None, None, None, None, "failed", "", " ", "\ud800"])
call_ids = st.sampled_from(["c0", "c1", "c2", "c3", "c4", ""])
names = st.sampled_from(["read", "read", "read", "write", "no good"])
raws = st.sampled_from(["{}", "{}", '{"a": 1}', "", "[]"])


def own_blocks(rules: Rules) -> st.SearchStrategy[list[Block]]:
    """What a model writes before its calls: mostly a text, also thoughts and seals of the target and of others."""
    seals = st.sampled_from((Seal(rules.target, "OWN"), Seal(rules.target, "OWN", "thought"), SEAL))
    thought: st.SearchStrategy[Block] = st.builds(Reasoning, texts, st.none() | seals)
    sealed: st.SearchStrategy[Block] = st.builds(Text, texts, seals)
    plain: st.SearchStrategy[Block] = st.builds(Text, texts, st.none(), extras(rules))
    return st.lists(plain | plain | thought | sealed, max_size=2)


def extras(rules: Rules) -> st.SearchStrategy[Extra | None]:
    """Fields of the target's own, of another wire, or none as mostly."""
    own, mark = rules.target.dialect, {"cache_control": {"type": "ephemeral"}}
    given = (
        Extra(own),
        Extra(own, hints=mark),
        Extra("other"),
        Extra("other", hints=mark),
        Extra("other", fields={"a": 1}, container=Extra("other", fields={"b": 1}, hints=mark)),
    )
    return st.sampled_from((None, None, None, None, None, None, *given))


@st.composite
def own_histories(draw: st.DrawFn, rules: Rules) -> Conversation:
    made: list[Message] = [user("a")]
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 3)) == 0:
            instruction = draw(st.booleans())
            text = Text(draw(texts), None, draw(extras(rules)))
            made.append(Message("user", (text,), instruction=instruction))
        if draw(st.integers(0, 2)) == 0:
            made.append(model(draw(texts), origin=draw(st.sampled_from([None, rules.target]))))
            continue
        calls = [
            ToolCall(
                draw(call_ids),
                draw(names),
                {"a": 1},
                draw(raws),
                draw(st.sampled_from(["", "own", "abcDEF123"])),
                draw(st.sampled_from([None, None, SEAL, Seal(rules.target, "OWN", "thought")])),
                extra=draw(extras(rules)),
            )
            for _ in range(draw(st.sampled_from([1, 1, 2, 3])))
        ]
        blocks = draw(own_blocks(rules))
        made.append(model(*blocks, *calls, origin=draw(st.sampled_from([None, rules.target]))))
        media = draw(st.sampled_from([(), (), (), (Media("image", "image/png", "eA=="),)]))
        made.append(
            tool(
                *(
                    ToolResult(
                        call.id,
                        call.name,
                        draw(outputs)
                        if (error := draw(errors)) is None
                        else draw(st.sampled_from([None, "x"])),
                        error,
                        media=media,
                        extra=draw(extras(rules)),
                    )
                    for call in calls
                )
            )
        )
    return Conversation(tuple(made))


def anthropic_messages() -> st.SearchStrategy[dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
    mark = {"cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    text = {"type": "text", "text": "hello", **mark}
    thought = {"type": "thinking", "thinking": "hm", "signature": "SEALED"}
    strings = st.sampled_from(("", " ", "hello", "\ud800"))
    odd: st.SearchStrategy[Any] = st.sampled_from(
        (None, 1, True, [], {}, ["x"], [{"type": "text", "text": "x"}])
    )
    parts = st.sampled_from((call, result, {**result, **mark}, text, thought)) | st.fixed_dictionaries(
        {"type": st.sampled_from(("text", "tool_use", "tool_result", "thinking", "other"))},
        optional={
            "text": strings | odd,
            "id": strings | odd,
            "name": strings | odd,
            "input": strings | odd,
            "tool_use_id": strings | odd,
            "content": strings | odd,
            "is_error": st.booleans(),
            "thinking": strings | odd,
            "signature": strings | odd,
            "cache_control": st.sampled_from((None, {}, {"type": "ephemeral"})),
        },
    )
    return st.fixed_dictionaries(
        {"role": st.sampled_from(("user", "assistant", "system"))},
        optional={"content": strings | odd | st.lists(parts, max_size=3), "unknown": odd},
    )


def gemini_contents() -> st.SearchStrategy[dict[str, Any]]:
    call = {"functionCall": {"id": "1", "name": "read", "args": {"path": "a"}}}
    result = {"functionResponse": {"name": "read", "response": {"output": "done"}}}
    text = {"text": "hello"}
    strings = st.sampled_from(("", " ", "hello", "skip_thought_signature_validator", "\ud800"))
    odd: st.SearchStrategy[Any] = st.sampled_from((None, 1, True, [], {}, ["x"], {"a": 1}))

    def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({}, optional={**fields, "unknown": odd})

    responses = odd | sometimes(output=strings | odd) | sometimes(error=strings)
    parts = st.sampled_from((call, result, text)) | sometimes(
        text=strings | odd,
        thought=st.booleans(),
        thoughtSignature=strings,
        thought_signature=strings,
        functionCall=sometimes(id=strings | odd, name=strings | odd, args=odd | strings),
        function_call=sometimes(name=strings),
        functionResponse=sometimes(id=strings, name=strings | odd, response=responses, parts=st.just([])),
        inlineData=st.just({"mimeType": "image/png", "data": "aGVsbG8="}),
    )
    return st.fixed_dictionaries(
        {"parts": strings | odd | st.lists(parts, max_size=3)},
        optional={"role": st.sampled_from(("user", "model", "function", "system", "")), "unknown": odd},
    )


def responses_items() -> st.SearchStrategy[dict[str, Any]]:
    call = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path": "a"}'}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
    text = {"type": "message", "role": "assistant", "content": "hello"}
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "SEALED"}
    strings = st.sampled_from(("", " ", "hello", "{}", "[1]", '{"cut": "o'))
    odd: st.SearchStrategy[Any] = st.sampled_from(
        (None, 1, True, [], {}, ["x"], [{"type": "summary_text", "text": "x"}])
    )
    kinds = ("message", "function_call", "function_call_output", "reasoning", "other")
    usual: st.SearchStrategy[dict[str, Any]] = st.sampled_from((call, result, text, thought))
    return usual | st.fixed_dictionaries(
        {"type": st.sampled_from(kinds)},
        optional={
            "role": st.sampled_from(("user", "assistant", "developer")),
            "content": strings | odd,
            "call_id": strings | odd,
            "name": strings | odd,
            "arguments": strings | odd,
            "output": strings | odd,
            "summary": odd,
            "encrypted_content": strings | odd,
            "id": strings,
            "status": st.just("completed"),
        },
    )


HEALTHY: Mapping[str, tuple[dict[str, Any], ...]] = {
    "anthropic": (
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "you"}]},
        {"role": "system", "content": "a note"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "SEALED"},
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a", "n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "done", "is_error": True},
            ],
        },
    ),
    "openai_chat": (
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "you"}]},
        {"role": "system", "content": "a note"},
        {"role": "assistant", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"n": 1}'}}
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                {"id": "call_2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ),
    "openai_responses": (
        {"role": "user", "content": "hello"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a note"}]},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello"}, {"type": "output_text", "text": "you"}],
        },
        {"type": "message", "role": "assistant", "content": "hello"},
        {"role": "system", "content": [{"type": "input_text", "text": "a note"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "SEALED",
        },
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "SEALED"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "annotations": [], "text": "hello", "logprobs": []}],
            "internal_chat_message_metadata_passthrough": {"turn_id": "1"},
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"n": 1}',
            "status": "completed",
        },
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "done"},
    ),
    "gemini": (
        {"role": "user", "parts": [{"text": "hello"}, {"text": "you"}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "hello"},
                {"functionCall": {"name": "read", "args": {"n": 1}}, "thoughtSignature": "SEALED"},
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "done"}}}]},
    ),
}
"""Messages of each wire that its fast path takes, as clients write them."""
ODD: tuple[Any, ...] = (
    "",
    " ",
    "other",
    "\ud800",
    None,
    True,
    1,
    1.0,
    [],
    {},
    ["x"],
    {"a": 1},
    [{"type": "text"}],
)
"""What may stand in the place of a value."""


def nearly_healthy(wire: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Healthy messages of a wire, in any order and repeated, of which one or two are changed at one place, however deep."""
    messages = st.sampled_from(HEALTHY[wire])
    return st.lists(messages | messages | messages.flatmap(_changed), min_size=1, max_size=5)


@st.composite
def _changed(draw: st.DrawFn, value: Any) -> Any:
    """The value with a field more, less or of another value, an item twice, or its fields in another order."""
    inner = [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []
    if not inner:
        return draw(st.sampled_from(ODD))
    at = draw(st.sampled_from(inner))
    if isinstance(value[at], dict | list) and draw(st.booleans()):
        edit, new = "put", draw(_changed(value[at]))
    else:
        edit, new = draw(st.sampled_from(("put", "put", "drop", "add", "turn"))), draw(st.sampled_from(ODD))
    if isinstance(value, list):
        kept = {"put": [new], "drop": [], "add": [value[at], value[at]], "turn": value[at:]}[edit]
        return [*value[:at], *kept, *value[at + 1 :]]
    if edit == "turn":
        return dict(reversed(value.items()))
    if edit == "add":
        names = (
            "unknown",
            "id",
            "status",
            "name",
            "type",
            "cache_control",
            "refusal",
            "annotations",
            "phase",
        )
        return {**value, draw(st.sampled_from(names)): new}
    return {name: new if name == at else held for name, held in value.items() if name != at or edit == "put"}


def chat_messages() -> st.SearchStrategy[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    strings = st.sampled_from(("", " ", "hello", "\ud800"))
    odd = st.sampled_from((None, 1, True, [], {}, ["x"], {"type": "text", "text": "x"}))
    arguments = st.sampled_from(
        ("", " ", "{}", '{"a": 1}', "[1]", '{"cut": "o', '{"a": "\ud800"}', {"a": 1}, None)
    )

    def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        """Objects in which any of these fields may be missing, and one that nobody knows may be there."""
        return st.fixed_dictionaries({}, optional={**fields, "unknown": odd})

    functions = sometimes(name=strings | odd, arguments=arguments)
    calls = st.just(call) | sometimes(
        id=strings | odd,
        type=st.sampled_from(("function", "custom")),
        function=functions,
        custom=sometimes(name=strings, input=strings),
        extra_content=st.just({"google": {"thought_signature": "SEALED"}}),
    )
    return st.fixed_dictionaries(
        {"role": st.sampled_from(("user", "assistant", "tool", "function", "system"))},
        optional={
            "content": strings | odd,
            "name": strings,
            "tool_call_id": strings | odd,
            "tool_calls": st.lists(calls, max_size=2) | odd,
            "function_call": functions,
            "refusal": strings,
            "reasoning_content": strings,
        },
    )
