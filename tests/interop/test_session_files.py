"""Reading the session files that people already have."""

from __future__ import annotations

import json

import pytest

from interop.requests import ALL
from interop.session_samples import claude_code, codex, lines, llm_logs
from segue.conversation.blocks import Reasoning, ToolCall, ToolResult
from segue.interop.session_files import read_file, read_session_file


def test_a_claude_code_session_is_the_request_it_would_send_next() -> None:
    source, places = read_file(claude_code())
    assert source.form == "Claude Code session"
    assert (source.dialect, source.options.model) == ("anthropic", "claude-opus-4-8")
    calls = [block for message in source.messages for block in message.blocks if type(block) is ToolCall]
    assert [call.native_id for call in calls] == ["toolu_01A", "toolu_01B"]
    results = [block for message in source.messages for block in message.blocks if type(block) is ToolResult]
    assert [result.output for result in results] == ["3 passed"]
    assert any(type(block) is Reasoning for message in source.messages for block in message.blocks)
    assert "subagent" not in str(source.messages)
    assert places == (2, 3, 7, 9)


def test_what_a_compaction_left_behind_is_not_sent_any_more() -> None:
    before = claude_code()
    boundary = lines(
        {
            "type": "system",
            "subtype": "compact_boundary",
            "sessionId": "5f1c",
            "content": "Conversation compacted",
        },
        {"type": "user", "sessionId": "5f1c", "message": {"role": "user", "content": "A summary."}},
    )
    source, _ = read_file(before + boundary)
    assert [message.text for message in source.messages] == ["A summary."]


def test_a_codex_rollout_is_the_request_it_would_send_next() -> None:
    source, places = read_file(codex())
    assert source.form == "Codex rollout"
    assert (source.dialect, source.options.model) == ("openai_responses", "gpt-5.6")
    assert "Be careful." in source.system
    calls = [
        block.native_id for message in source.messages for block in message.blocks if type(block) is ToolCall
    ]
    assert calls == ["call_make", "call_ls"]
    assert places == (3, 5, 6, 7, 8, 10)


def test_a_compacted_rollout_starts_from_what_replaced_it() -> None:
    replaced = lines(
        {
            "type": "compacted",
            "payload": {
                "message": "Summary.",
                "replacement_history": [{"type": "message", "role": "user", "content": "Kept."}],
            },
        }
    )
    source, _ = read_file(codex() + replaced)
    assert [message.text for message in source.messages] == ["Kept."]


def test_logs_of_llm_are_one_conversation_in_order() -> None:
    source, _ = read_file(llm_logs())
    assert source.form == "llm log"
    assert source.system == "Be brief."
    assert [tool.name for tool in source.tools] == ["get_weather"]
    assert [message.speaker for message in source.messages] == ["user", "model", "tool", "model"]
    assert source.messages[-1].text == "18C."


def test_a_line_that_was_cut_off_at_the_end_does_not_matter() -> None:
    source, _ = read_file(claude_code() + b'{"type":"user","mess')
    assert source.form == "Claude Code session"


@pytest.mark.parametrize("dialect", ALL)
def test_a_request_body_is_no_session_file(dialect: str) -> None:
    data = json.dumps(ALL[dialect]).encode()
    assert read_session_file(data) is None
    assert read_file(data)[0].dialect == dialect


def test_a_body_over_several_lines_is_no_session_file() -> None:
    assert read_session_file(json.dumps(ALL["anthropic"], indent=1).encode()) is None
