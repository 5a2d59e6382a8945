"""Session files as the programs write them, each broken off in the middle of a call."""

from __future__ import annotations

import json
from typing import Any


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _claude(kind: str, uuid: str, **message: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": None,
        "isSidechain": False,
        "sessionId": "5f1c",
        "version": "2.1.325",
        "message": {"role": kind, **message},
    }


def claude_code() -> bytes:
    reply = {"id": "msg_1", "type": "message", "model": "claude-opus-4-8"}
    return lines(
        {"type": "ai-title", "sessionId": "5f1c", "aiTitle": "Tests"},
        _claude("user", "u1", content="Run the tests and show me main.py."),
        _claude(
            "assistant", "a1", **reply, content=[{"type": "thinking", "thinking": "", "signature": "c2ln"}]
        ),
        _claude("assistant", "a2", **reply, content=[{"type": "text", "text": "On it."}]),
        _claude(
            "assistant",
            "a3",
            **reply,
            content=[{"type": "tool_use", "id": "toolu_01A", "name": "Bash", "input": {"command": "pytest"}}],
        ),
        _claude(
            "assistant",
            "a4",
            **reply,
            content=[{"type": "tool_use", "id": "toolu_01B", "name": "Read", "input": {"file": "main.py"}}],
        ),
        _claude(
            "user", "r1", content=[{"type": "tool_result", "tool_use_id": "toolu_01A", "content": "3 passed"}]
        ),
        {**_claude("user", "s1", content="a subagent's prompt"), "isSidechain": True},
        _claude("user", "u2", content="[Request interrupted by user]"),
    )


def codex() -> bytes:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-09-16T09:32:07Z", "type": "response_item", "payload": payload}

    def message(role: str, kind: str, text: str) -> dict[str, Any]:
        return item(type="message", role=role, content=[{"type": kind, "text": text}])

    return lines(
        {"type": "session_meta", "payload": {"id": "0199", "cwd": "/src", "instructions": "Be careful."}},
        {"type": "turn_context", "payload": {"model": "gpt-5.6", "cwd": "/src"}},
        message("user", "input_text", "Fix the build."),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "Fix the build."}},
        item(type="reasoning", summary=[], encrypted_content="gAAAAsealed"),
        item(type="function_call", name="shell", arguments='{"command":"make"}', call_id="call_make"),
        item(type="function_call", name="shell", arguments='{"command":"ls"}', call_id="call_ls"),
        item(type="function_call_output", call_id="call_ls", output="Makefile"),
        item(type="ghost_snapshot", ghost_commit={"id": "c0ffee"}),
        message("user", "input_text", "Are you there?"),
    )


def llm_logs() -> bytes:
    return json.dumps(
        [
            {
                "id": "01a",
                "model": "gpt-4.1",
                "prompt": "Weather in Paris?",
                "system": "Be brief.",
                "response": "",
                "conversation_id": "c1",
                "datetime_utc": "2026-11-01T10:00:00",
                "tools": [{"name": "get_weather", "description": "", "input_schema": {"type": "object"}}],
                "tool_calls": [
                    {"tool_call_id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}},
                    {"tool_call_id": "call_2", "name": "get_weather", "arguments": {"city": "Rome"}},
                ],
                "tool_results": [],
            },
            {
                "id": "01b",
                "model": "gpt-4.1",
                "prompt": "",
                "system": None,
                "response": "18C.",
                "conversation_id": "c1",
                "datetime_utc": "2026-11-01T10:00:05",
                "tools": [],
                "tool_calls": [],
                "tool_results": [{"tool_call_id": "call_1", "name": "get_weather", "output": "18C"}],
            },
        ]
    ).encode()
