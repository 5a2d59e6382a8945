"""Requests that no program should write, and some do: documented errors, never others."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from segue.config.layers import load_settings
from segue.dialects.registry import NAMES
from segue.errors import SegueError, TranscriptError
from segue.interop.convert import convert
from segue.interop.doctor import examine, fix_transcript
from segue.interop.session_files import read_file
from segue.providers.config import read_provider_config
from segue.sessions.imports import read_history

HI: dict[str, Any] = {"role": "user", "content": "hi"}
TOOL: dict[str, Any] = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "messages": [HI], **fields}


def with_tool(**fields: Any) -> dict[str, Any]:
    return chat(tools=[{"type": "function", "function": {**TOOL, **fields}}])


HOSTILE: dict[str, Any] = {
    "type as a list": {"type": ["a"], "payload": {}},
    "surrogate in the model": chat(model="\ud800"),
    "surrogate in a description": with_tool(description="\udfff"),
    "surrogate in a schema": with_tool(parameters={"\ud800": "\udfff"}),
    "calls as true": chat(messages=[HI, {"role": "assistant", "tool_calls": True}]),
    "required with a table": with_tool(parameters={"type": "object", "properties": {}, "required": [{}]}),
    "choice with a list": chat(tool_choice={"type": ["function"]}),
    "effort as a table": chat(reasoning_effort={"a": 1}),
    "not a number": chat(temperature=float("nan")),
    "not a number in a schema": with_tool(parameters={"minimum": float("nan")}),
    "nested without end": with_tool(parameters=json.loads('{"a":' * 500 + "1" + "}" * 500)),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("lines", [1, 2])
def test_hostile_json_raises_documented_errors_only(name: str, lines: int) -> None:
    data = b"\n".join([json.dumps(HOSTILE[name]).encode()] * lines)
    for to in (*NAMES, "conversation"):
        with suppress(SegueError):
            json.loads(convert(data, to=to).body)
    for targets in ((), ("all",)):
        with suppress(SegueError):
            source, places = read_file(data)
            json.dumps(examine(source, targets, lines=places).as_dict()).encode()
            fix_transcript(source, targets)
    with suppress(SegueError):
        read_history(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_of_a_program_raise_documented_errors_only(name: str) -> None:
    for to in NAMES:
        with suppress(SegueError):
            convert(HOSTILE[name], to=to)


def test_nesting_without_end_is_named() -> None:
    with pytest.raises(TranscriptError) as refused:
        convert(json.dumps(HOSTILE["nested without end"]), to="anthropic")
    assert refused.value.code == "too_deep"


def test_a_configuration_that_nests_without_end_is_an_error_of_that_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "segue.toml").write_text(f"model = {'[' * 3000}{']' * 3000}")
    with pytest.raises(SegueError) as refused:
        load_settings(directory=tmp_path, environment={})
    assert "segue.toml" in str(refused.value)
    assert isinstance(load_settings(bare=True, environment={"SEGUE_SYSTEM": "[" * 3000}).config.system, str)


@pytest.mark.parametrize("field", ["timeouts", "auth", "dialect", "headers"])
def test_a_lone_surrogate_in_the_settings_of_a_provider_is_a_problem_of_that_setting(field: str) -> None:
    _, problems = read_provider_config("openai", {field: "\ud800", "limits": {"calls": "\ud800"}})
    assert any(problem.field.endswith(field) for problem in problems)
