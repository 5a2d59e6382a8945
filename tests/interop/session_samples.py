"""Session files as the programs write them; the first ones are broken off in the middle of a call."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def claude_line(kind: str, uuid: str, parent: str | None, **message: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "5f1c",
        "version": "2.1.325",
        "message": {"role": kind, **message},
    }


def claude_code() -> bytes:
    reply = {"id": "msg_1", "type": "message", "model": "claude-opus-4-8"}
    return lines(
        {"type": "ai-title", "sessionId": "5f1c", "aiTitle": "Tests"},
        claude_line("user", "u1", None, content="Run the tests and show me main.py."),
        claude_line(
            "assistant",
            "a1",
            "u1",
            **reply,
            content=[{"type": "thinking", "thinking": "", "signature": "c2ln"}],
        ),
        claude_line("assistant", "a2", "a1", **reply, content=[{"type": "text", "text": "On it."}]),
        claude_line(
            "assistant",
            "a3",
            "a2",
            **reply,
            content=[{"type": "tool_use", "id": "toolu_01A", "name": "Bash", "input": {"command": "pytest"}}],
        ),
        claude_line(
            "assistant",
            "a4",
            "a3",
            **reply,
            content=[{"type": "tool_use", "id": "toolu_01B", "name": "Read", "input": {"file": "main.py"}}],
        ),
        claude_line(
            "user",
            "r1",
            "a3",
            content=[{"type": "tool_result", "tool_use_id": "toolu_01A", "content": "3 passed"}],
        ),
        {**claude_line("user", "s1", None, content="a subagent's prompt"), "isSidechain": True},
        claude_line("user", "u2", "r1", content="[Request interrupted by user]"),
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


def llm_database() -> bytes:
    """The same conversation as in `llm_logs`, after an older one, as the program's tables hold it."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(
            """
            CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, system TEXT, response TEXT,
                                    conversation_id TEXT, datetime_utc TEXT);
            CREATE TABLE tools (id INTEGER, name TEXT, description TEXT, input_schema TEXT);
            CREATE TABLE tool_responses (tool_id INTEGER, response_id TEXT);
            CREATE TABLE tool_calls (id INTEGER, response_id TEXT, name TEXT, arguments TEXT, tool_call_id TEXT);
            CREATE TABLE tool_results (id INTEGER, response_id TEXT, name TEXT, output TEXT, tool_call_id TEXT);
            CREATE TABLE fragments (id INTEGER, content TEXT);
            CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
            INSERT INTO responses VALUES ('00a', 'gpt-4.1', 'Old?', NULL, 'Old.', 'c0', '2026-10-01T10:00:00');
            INSERT INTO responses VALUES
                ('01a', 'gpt-4.1', 'Weather in Paris?', 'Be brief.', '', 'c1', '2026-11-01T10:00:00'),
                ('01b', 'gpt-4.1', '', NULL, '18C.', 'c1', '2026-11-01T10:00:05');
            INSERT INTO tools VALUES (1, 'get_weather', '', '{"type":"object"}');
            INSERT INTO tool_responses VALUES (1, '01a');
            INSERT INTO tool_calls VALUES (1, '01a', 'get_weather', '{"city":"Paris"}', 'call_1');
            INSERT INTO tool_results VALUES (1, '01b', 'get_weather', '18C', 'call_1');
            INSERT INTO fragments VALUES (1, 'A note.');
            INSERT INTO prompt_fragments VALUES ('01a', 1, 0);
            """
        )
        return database.serialize()


def qwen_code() -> bytes:
    def line(kind: str, uuid: str, parent: str | None, role: str, *parts: dict[str, Any]) -> dict[str, Any]:
        message = {"role": role, "parts": list(parts)}
        return {"uuid": uuid, "parentUuid": parent, "sessionId": "9a", "type": kind, "message": message}

    call = {"functionCall": {"id": "read:0", "name": "read", "args": {"path": "a.txt"}}}
    result = {"functionResponse": {"id": "read:0", "name": "read", "response": {"output": "port 1"}}}
    return lines(
        line("user", "u0", None, "user", {"text": "A prompt that was edited."}),
        line("user", "u1", None, "user", {"text": "Which port?"}),
        {"uuid": "t1", "parentUuid": "u1", "sessionId": "9a", "type": "system", "subtype": "ui_telemetry"},
        line("assistant", "a1", "t1", "model", {"text": "Hm.", "thought": True}, {"text": "I look."}, call),
        line("tool_result", "r1", "a1", "user", result),
        line("assistant", "a2", "r1", "model", {"text": "Port 1."}),
    )


def gemini_cli() -> bytes:
    result = {"functionResponse": {"id": "read_1", "name": "read", "response": {"output": "port 1"}}}
    reply = {
        "id": "g1",
        "type": "gemini",
        "content": "I look.",
        "thoughts": [{"subject": "Look", "description": "at the file"}],
        "model": "gemini-2.5-pro",
    }
    call = {
        "id": "read_1",
        "name": "read",
        "args": {"path": "a.txt"},
        "result": [result],
        "status": "success",
    }
    return lines(
        {"sessionId": "34d2", "projectHash": "9c", "startTime": "2026-11-16T02:49:35Z", "kind": "main"},
        {
            "$set": {
                "messages": [{"id": "m0", "type": "user", "content": [{"text": "The directory is empty."}]}]
            }
        },
        {"id": "m1", "type": "user", "content": [{"text": "Which port?"}]},
        reply,
        {"$set": {"lastUpdated": "2026-11-16T02:49:36Z"}},
        {**reply, "toolCalls": [call]},
        {"id": "m2", "type": "user", "content": [result]},
        {"id": "i1", "type": "info", "content": "An update is available."},
        {"id": "g2", "type": "gemini", "content": "Port 1.", "model": "gemini-2.5-pro"},
        {"id": "m3", "type": "user", "content": "Never mind."},
        {"$rewindTo": "m3"},
    )


def pi() -> bytes:
    def entry(name: str, parent: str | None, **message: Any) -> dict[str, Any]:
        return {"type": "message", "id": name, "parentId": parent, "message": message}

    def text(words: str) -> list[dict[str, Any]]:
        return [{"type": "text", "text": words}]

    calls = [
        {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"},
        {"type": "toolCall", "id": "toolu_1", "name": "bash", "arguments": {"command": "ls"}},
    ]
    claude = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"}
    other = {"api": "openai-responses", "provider": "openai", "model": "gpt-5.5"}
    foreign = [{"type": "thinking", "thinking": "Ah.", "thinkingSignature": "{}"}, *text("It is a.txt.")]
    tool = {"name": "bash", "description": "Runs a command.", "parameters": {"type": "object"}}
    return lines(
        {"type": "session", "version": 3, "id": "01a1", "cwd": "/src"},
        {"type": "model_change", "id": "e0", "parentId": None, "modelId": "claude-sonnet-4-5"},
        entry("e1", "e0", role="system", content="", sections={"rules": "Be brief."}, toolsAdded=[tool]),
        entry("e2", "e1", role="user", content=text("List the files.")),
        entry("e3", "e2", role="assistant", content=calls, **claude),
        entry("e4", "e3", role="toolResult", toolCallId="toolu_1", content=text("a.txt"), isError=False),
        entry("x1", "e4", role="assistant", content=text("A dead branch."), **claude),
        entry("e5", "e4", role="assistant", content=[], stopReason="error", **other),
        entry("e6", "e5", role="assistant", content=foreign, **other),
        entry("e7", "e6", role="user", content="Thanks."),
    )


def opencode() -> bytes:
    def message(role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
        return {"info": {"id": f"msg_{role}", "role": role, **info}, "parts": list(parts)}

    start = {"type": "step-start"}
    done = {"status": "completed", "input": {"command": "ls"}, "output": "a.txt"}
    failed = {"status": "error", "input": {"command": "rm"}, "error": "denied"}
    reply = message(
        "assistant",
        start,
        {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "c2ln"}}},
        {"type": "tool", "tool": "bash", "callID": "toolu_1", "state": done},
        {"type": "tool", "tool": "bash", "callID": "toolu_2", "state": failed},
        {"type": "tool", "tool": "bash", "callID": "toolu_3", "state": {"status": "running", "input": {}}},
        {"type": "step-finish"},
        start,
        {"type": "text", "text": "It is a.txt."},
        providerID="anthropic",
        modelID="claude-sonnet-4-5",
    )
    prompt = message("user", {"type": "text", "text": "List the files."})
    undone = {"info": {"id": "msg_undone", "role": "user"}, "parts": [{"type": "text", "text": "Undone."}]}
    session = {"id": "ses_1", "revert": {"messageID": "msg_undone"}}
    return json.dumps({"info": session, "messages": [prompt, reply, undone]}, indent=1).encode()


def copilot() -> bytes:
    def event(kind: str, name: str, parent: str | None, **data: Any) -> dict[str, Any]:
        return {"type": kind, "id": name, "parentId": parent, "data": data}

    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAsealed"}
    calls = [
        {"toolCallId": "call_1", "name": "view", "arguments": {"path": "a.txt"}, "type": "function"},
        {"toolCallId": "call_2", "name": "rm", "arguments": {}, "type": "function"},
    ]
    return lines(
        event("session.start", "e0", None, sessionId="a22a", selectedModel="gpt-5.5"),
        event("user.message", "e1", "e0", content="Which port?", transformedContent="Today. Which port?"),
        event("system.message", "e2", "e1", role="system", content="Be brief."),
        event(
            "assistant.message",
            "e3",
            "e2",
            model="gpt-5.5",
            content="I look.",
            toolRequests=calls,
            reasoningBlocks={"provider": "openai-responses", "blocks": [sealed]},
        ),
        event("tool.execution_start", "e4", "e3", toolCallId="call_1"),
        event("assistant.message", "e5", "e4", content="A subagent's reply.", parentToolCallId="call_1"),
        event(
            "tool.execution_complete",
            "e6",
            "e5",
            toolCallId="call_1",
            success=True,
            result={"content": "port 1"},
        ),
        event(
            "tool.execution_complete",
            "e7",
            "e6",
            toolCallId="call_2",
            success=False,
            error={"message": "denied"},
        ),
        event("assistant.message", "e8", "e7", model="gpt-5.5", content="Port 1.", reasoningText="Ah."),
        event("session.shutdown", "e9", "e8", shutdownType="routine"),
    )


def cline() -> bytes:
    call = {"type": "tool_use", "id": "call_1", "name": "run", "input": {"commands": ["cat a.txt"]}}
    record = {"query": "cat a.txt", "result": "port 1", "success": True}
    result = {"type": "tool_result", "tool_use_id": "call_1", "name": "run", "content": [record]}
    shown = {"role": "assistant", "content": [{"type": "text", "text": "Only shown."}]}
    session = {
        "version": 1,
        "sessionId": "17_b",
        "agent": "lead",
        "messages": [
            {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Which port?"}], "ts": 1},
            {
                "id": "m2",
                "role": "assistant",
                "content": [call],
                "modelInfo": {"id": "gpt-5.5", "provider": "openai"},
            },
            {"id": "m3", "role": "user", "content": [result], "ts": 3},
            {"id": "m4", **shown, "metadata": {"displayOnly": True, "displayRole": "error"}},
            {"id": "m5", "role": "assistant", "content": [{"type": "text", "text": "Port 1."}]},
        ],
        "system_prompt": "Be brief.",
    }
    return json.dumps(session, indent=1).encode()


def continue_session() -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a.txt"}'}}
    state = {
        "toolCallId": "call_1",
        "status": "done",
        "output": [{"content": "port 1", "name": "Tool Result"}],
    }
    session = {
        "sessionId": "f61d",
        "title": "Ports",
        "history": [
            {
                "message": {"role": "user", "content": "Which port?"},
                "contextItems": [{"content": "See a.txt."}],
            },
            {"message": {"role": "thinking", "content": "Hm."}},
            {
                "message": {"role": "assistant", "content": "I look.", "toolCalls": [call]},
                "toolCallStates": [state],
            },
            {"message": {"role": "assistant", "content": "Port 1.", "usage": {"model": "gpt-5.5"}}},
        ],
    }
    return json.dumps(session, indent=1).encode()


SAMPLES = {
    "Claude Code session": claude_code,
    "Codex rollout": codex,
    "llm log": llm_logs,
    "Qwen Code session": qwen_code,
    "Gemini CLI session": gemini_cli,
    "pi session": pi,
    "opencode session": opencode,
    "Copilot CLI session": copilot,
    "Cline session": cline,
    "Continue session": continue_session,
}
"""A sample of each form that is made of JSON."""
