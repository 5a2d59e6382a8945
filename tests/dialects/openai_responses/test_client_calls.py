"""Calls that the client performs, of every kind that the official types name, and the items that answer them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.emulators.model.model_facts import facts_for
from segue.emulators.openai_responses.checks import complaints
from segue.emulators.rules import Context, first_enforced
from segue.errors import TranscriptError
from segue.interop.convert import convert

MODEL = "gpt-5"
SCREEN = "data:image/png;base64,aGVsbG8="
CALLS: dict[str, dict[str, Any]] = {
    "function_call": {"name": "f", "arguments": "{}"},
    "custom_tool_call": {"name": "f", "input": "some text"},
    "shell_call": {"id": "sh_1", "status": "completed", "action": {"commands": ["ls", "pwd"]}},
    "local_shell_call": {
        "id": "lsh_1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "apply_patch_call": {
        "status": "completed",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@"},
    },
    "computer_call": {
        "id": "cu_1",
        "status": "completed",
        "action": {"type": "click", "button": "left", "x": 1, "y": 2},
        "pending_safety_checks": [],
    },
}
OUTPUTS: dict[str, list[dict[str, Any]]] = {
    "function_call": [{"output": "A REAL RESULT"}],
    "custom_tool_call": [{"output": "A REAL RESULT"}],
    "shell_call": [
        {"output": [{"stdout": "A REAL RESULT", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
        {"output": [{"stdout": "", "stderr": "A REAL RESULT", "outcome": {"type": "timeout"}}]},
        {
            "max_output_length": 100,
            "output": [
                {"stdout": "A REAL RESULT\n", "stderr": "w\n", "outcome": {"type": "exit", "exit_code": 2}},
                {"stdout": "more", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            ],
        },
    ],
    "local_shell_call": [{"output": "A REAL RESULT"}, {"output": "A REAL RESULT", "call_id": None}],
    "apply_patch_call": [
        {"status": "completed", "output": "A REAL RESULT"},
        {"status": "failed", "output": "A REAL RESULT"},
        {"status": "completed"},
    ],
    "computer_call": [{"output": {"type": "computer_screenshot", "image_url": SCREEN}}],
}
KINDS = list(CALLS)
ANSWERED = [(kind, number) for kind, forms in OUTPUTS.items() for number in range(len(forms))]
OTHERS = ["anthropic", "openai_chat", "gemini", "mistral", "ollama", "kimi"]


def call_of(kind: str, call_id: str = "call_s") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, **CALLS[kind]}


def output_of(kind: str, number: int = 0, call_id: str = "call_s") -> dict[str, Any]:
    output = {"type": f"{kind}_output", "call_id": call_id, **OUTPUTS[kind][number]}
    if output["call_id"] is None:  # as the official types have it
        output["id"] = call_id
        del output["call_id"]
    return output


def body_of(*items: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": MODEL,
        "store": False,
        "input": [{"role": "user", "content": "go"}, *items, {"role": "user", "content": "next"}],
    }


def refusal_of(body: dict[str, Any]) -> Any:
    context = Context(model=MODEL, facts=facts_for("openai", MODEL), strict=True)
    return first_enforced(complaints(body, context), context)


@pytest.mark.parametrize(("kind", "number"), ANSWERED)
def test_a_call_of_each_kind_and_its_output_return_to_their_wire_as_they_came(kind: str, number: int) -> None:
    body = body_of(call_of(kind), output_of(kind, number))
    assert refusal_of(body) is None
    converted = convert(body, to="openai_responses", strict=True)
    assert converted.request == body
    assert not converted.repairs


@pytest.mark.parametrize("kind", KINDS)
def test_an_unanswered_call_is_closed_by_the_output_item_of_its_own_kind(kind: str) -> None:
    converted = convert(body_of(call_of(kind)), to="openai_responses")
    items = converted.request["input"]
    assert [item.get("type", "message") for item in items] == ["message", kind, f"{kind}_output", "message"]
    assert refusal_of(converted.request) is None
    again = convert(converted.body, to="openai_responses")
    assert (again.request, again.repairs) == (converted.request, ())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "computer_call"])
@pytest.mark.parametrize("first", ["placeholder", "real"])
def test_a_real_output_wins_over_the_one_that_closed_its_call(kind: str, first: str) -> None:
    closed = convert(body_of(call_of(kind)), to="openai_responses").request["input"][2]
    both = [closed, output_of(kind)] if first == "placeholder" else [output_of(kind), closed]
    converted = convert(body_of(call_of(kind), *both), to="openai_responses")
    assert converted.request["input"][2:-1] == [output_of(kind)]


@pytest.mark.parametrize("to", OTHERS)
@pytest.mark.parametrize(("kind", "number"), ANSWERED)
def test_every_other_wire_gets_the_call_and_what_its_output_says(kind: str, number: int, to: str) -> None:
    body = convert(body_of(call_of(kind), output_of(kind, number)), to=to).body
    given = {name: value for name, value in CALLS[kind].items() if name in ("action", "operation", "input")}
    words = [word for value in given.values() for word in _words(value)]
    assert all(json.dumps(word)[1:-1].encode() in body.replace(b"\\", b"") for word in words)
    if "A REAL RESULT" in json.dumps(OUTPUTS[kind][number]):
        assert b"A REAL RESULT" in body
    assert b"unknown_tool" not in body


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [word for item in inner for word in _words(item)]


@pytest.mark.parametrize("to", ["anthropic", "openai_responses"])
def test_several_actions_of_a_computer_are_not_lost(to: str) -> None:
    call = {**call_of("computer_call"), "actions": [{"type": "type", "text": "HELLO"}]}
    del call["action"]
    assert b"HELLO" in convert(body_of(call, output_of("computer_call")), to=to).body


def test_how_a_command_ended_is_told_to_other_models() -> None:
    for number, ended in ((1, b"[timed out]"), (2, b"[exit code 2]")):
        assert (
            ended
            in convert(body_of(call_of("shell_call"), output_of("shell_call", number)), to="anthropic").body
        )


def test_a_shell_of_the_provider_stays_with_its_output() -> None:
    there = {
        **call_of("shell_call"),
        "environment": {"type": "container_reference", "container_id": "cntr_1"},
    }
    body = body_of(there, output_of("shell_call"))
    assert convert(body, to="openai_responses").request == body
    assert b"unknown_tool" not in convert(body, to="anthropic").body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_an_output_of_another_kind_becomes_one_of_the_calls_own(kind: str, other: str) -> None:
    converted = convert(body_of(call_of(kind), output_of(other)), to="openai_responses")
    assert refusal_of(converted.request) is None
    if "computer_call" not in (kind, other):
        assert b"A REAL RESULT" in converted.body


@given(data=st.data())
def test_what_is_written_for_any_mixture_of_calls_and_outputs_is_accepted(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    items: list[dict[str, Any]] = []
    for position, kind in enumerate(kinds):
        call_id = data.draw(st.sampled_from([f"call_{position}", "call_0", "x" * 70, ""]))
        call = call_of(kind, call_id)
        if "id" in call:
            call["id"] = f"{call['id']}{position}"
        answers = data.draw(st.lists(st.sampled_from([kind, kind, *KINDS]), max_size=2))
        outputs = [
            output_of(answer, data.draw(st.integers(0, len(OUTPUTS[answer]) - 1)), call_id)
            for answer in answers
        ]
        items += data.draw(st.permutations([call, *outputs]))
    converted = convert(body_of(*items), to="openai_responses")
    assert refusal_of(converted.request) is None
    again = convert(converted.body, to="openai_responses")
    assert [str(repair) for repair in again.repairs] == []
    assert again.request == converted.request


@pytest.mark.parametrize("odd", [[], {}, 7, None, True])
@pytest.mark.parametrize("field", ["type", "call_id"])
def test_an_item_with_an_odd_type_or_id_is_read_or_refused_in_words(field: str, odd: Any) -> None:
    for item in (call_of("shell_call"), output_of("shell_call"), output_of("local_shell_call", 1)):
        with suppress(TranscriptError):
            convert(body_of(call_of("shell_call", "call_other"), {**item, field: odd}), to="openai_responses")
