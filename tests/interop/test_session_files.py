"""Reading the session files that people already have."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interop.requests import ALL
from interop.session_samples import (
    SAMPLES,
    claude_code,
    claude_line,
    cline,
    codex,
    continue_session,
    copilot,
    gemini_cli,
    lines,
    llm_database,
    llm_logs,
    opencode,
    pi,
    qwen_code,
)
from laws.emulated import EMULATED, complaints_about
from segue.conversation.blocks import Reasoning, ToolCall, ToolResult
from segue.dialects.registry import NAMES
from segue.errors import TranscriptError, UsageError
from segue.interop.agents import llm
from segue.interop.convert import write_request
from segue.interop.doctor import examine
from segue.interop.session_files import read_file, read_session_file
from segue.providers.models.cards import default_model
from segue.sessions.imports import read_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.interop.source import SourceRequest

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "client-sessions"


def speakers(source: SourceRequest) -> list[str]:
    return [message.speaker for message in source.messages]


def outputs(source: SourceRequest) -> list[object]:
    return [
        block.error or block.output
        for message in source.messages
        for block in message.blocks
        if type(block) is ToolResult
    ]


def seals(source: SourceRequest) -> list[str]:
    return [
        block.seal.payload
        for message in source.messages
        for block in message.blocks
        if type(block) is Reasoning and block.seal is not None
    ]


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


def result_line(uuid: str, parent: str, call: str, text: str) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
    return claude_line("user", uuid, parent, content=content)


def reply_line(uuid: str, parent: str, message: str, block: dict[str, Any]) -> dict[str, Any]:
    return claude_line("assistant", uuid, parent, id=message, model="claude-opus-4-8", content=[block])


REWOUND = (
    claude_line("user", "u1", None, content="First."),
    reply_line("a1", "u1", "msg_1", {"type": "text", "text": "Yes."}),
    claude_line("user", "u2", "a1", content="A prompt that was edited."),
    reply_line("a2", "u2", "msg_2", {"type": "text", "text": "Its reply."}),
    claude_line("user", "u3", "a1", content="Second."),
    reply_line("a3", "u3", "msg_3", {"type": "text", "text": "No."}),
)


def last_prompt(leaf: str) -> dict[str, Any]:
    return {"type": "last-prompt", "leafUuid": leaf, "sessionId": "5f1c"}


def texts_of(*rows: dict[str, Any]) -> list[str]:
    return [message.text for message in read_file(lines(*rows))[0].messages]


def test_a_dead_branch_of_a_claude_code_session_is_not_read() -> None:
    source, places = read_file(lines(*REWOUND))
    assert [message.text for message in source.messages] == ["First.", "Yes.", "Second.", "No."]
    assert places == (1, 2, 5, 6)


EDITED = ["First.", "Yes.", "A prompt that was edited.", "Its reply."]
SECOND = ["First.", "Yes.", "Second.", "No."]


@pytest.mark.parametrize(
    ("named", "read"),
    [
        (["a2"], EDITED),
        (["u2"], EDITED),  # on to its newest descendant
        (["a3"], SECOND),
        (["a1"], SECOND),
        (["a3", "a2"], EDITED),  # the last one counts
        (["a2", "a3"], SECOND),
        (["a2", "lost"], EDITED),
        (["lost"], SECOND),
        ([""], SECOND),
    ],
)
def test_the_branch_of_a_claude_code_session_that_it_resumes_is_read(
    named: list[str], read: list[str]
) -> None:
    """It goes on from the line that the last `last-prompt` names, also where a newer branch stands beside it."""
    assert texts_of(*REWOUND, *map(last_prompt, named)) == read
    assert texts_of(*map(last_prompt, named), *REWOUND) == read


def test_times_and_not_the_order_of_the_file_decide_what_is_new() -> None:
    timed = [
        {**row, "timestamp": f"2026-11-16T03:16:0{second}.5Z"}
        for row, second in zip(REWOUND, (1, 2, 5, 6, 3, 4), strict=True)
    ]
    assert texts_of(*timed) == EDITED
    assert texts_of(*timed[::-1]) == EDITED
    assert texts_of(*timed[::-1], last_prompt("u3")) == SECOND
    lost = [timed[0], {**timed[2], "parentUuid": "lost"}, {**timed[1], "parentUuid": "lost, too"}]
    assert texts_of(*lost) == ["First.", "Yes.", "A prompt that was edited."]


def test_an_end_is_what_nothing_follows_whatever_its_time() -> None:
    """The lines of one moment are not always written in their order."""
    first, reply, *_ = REWOUND
    later, sooner = "2026-11-16T03:17:08.777Z", "2026-11-16T03:17:08.572Z"
    assert texts_of({**first, "timestamp": later}, {**reply, "timestamp": sooner}) == ["First.", "Yes."]


def test_a_compaction_goes_on_from_the_branch_that_it_ended() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b",
        "parentUuid": None,
        "logicalParentUuid": "a2",
        "sessionId": "5f1c",
    }
    summary = {**claude_line("user", "s", "b", content="Summary."), "isCompactSummary": True}
    assert texts_of(*REWOUND, last_prompt("a2"), boundary, summary) == ["Summary."]
    assert texts_of(*REWOUND, last_prompt("a3"), boundary, summary) == SECOND
    kept = {"preservedSegment": {"headUuid": "u2", "anchorUuid": "s", "tailUuid": "a2"}}
    after = claude_line("user", "u4", "a2", content="After.")
    read = texts_of(*REWOUND, last_prompt("a2"), {**boundary, "compactMetadata": kept}, summary, after)
    assert read == ["Summary.", "A prompt that was edited.", "Its reply.", "After."]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real session files is not here")
def test_what_a_real_compaction_kept_stands_behind_its_summary() -> None:
    """It reports 581 tokens of what is left, of 19,395: the messages before it are gone."""
    source, _ = read_file((CORPUS / "claude-code" / "07.jsonl").read_bytes())
    assert [message.speaker for message in source.messages] == ["user", "model", "user", "user", "user"]
    assert source.messages[1].text == "No response requested."


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real session files is not here")
def test_a_real_session_that_was_killed_is_read_as_claude_code_resumed_it() -> None:
    """Killed with parallel calls open, it went on from the first result: the next file shows the prompt that followed."""
    killed, resumed = ((CORPUS / "claude-code" / name).read_bytes() for name in ("00.jsonl", "01.jsonl"))
    before, after = read_file(killed)[0].messages, read_file(resumed)[0].messages
    assert after[: len(before)] == before
    assert [message.speaker for message in before] == ["user", "model", "tool", "tool", "tool"]


def test_all_results_of_parallel_calls_are_read_and_what_followed_a_dead_one_is_not() -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {}}
    data = lines(
        claude_line("user", "u1", None, content="Run both."),
        reply_line("a1", "u1", "msg_1", {**call, "id": "toolu_1"}),
        result_line("r1", "a1", "toolu_1", "one"),
        reply_line("a2", "a1", "msg_1", {**call, "id": "toolu_2"}),
        result_line("r2", "a2", "toolu_2", "two"),
        reply_line("a3", "r2", "msg_2", {"type": "text", "text": "A dead reply."}),
        claude_line("user", "u2", "r1", content="What now?"),
    )
    source, _ = read_file(data)
    assert speakers(source) == ["user", "model", "tool", "tool", "user"]
    assert outputs(source) == ["one", "two"]
    assert [call.native_id for call in source.messages[1].calls] == ["toolu_1", "toolu_2"]


def test_a_claude_code_session_whose_parents_form_a_ring_is_read() -> None:
    data = lines(
        claude_line("user", "u1", "u2", content="One."), claude_line("user", "u2", "u1", content="Two.")
    )
    assert [message.text for message in read_file(data)[0].messages] == ["One.", "Two."]


def test_lines_that_were_written_twice_are_read_once() -> None:
    assert read_file(claude_code() + claude_code())[0].messages == read_file(claude_code())[0].messages


def test_a_parent_that_is_not_in_the_file_is_the_line_before() -> None:
    data = lines(
        claude_line("user", "u1", "cut off", content="One."),
        claude_line("user", "u2", "lost", content="Two."),
    )
    assert [message.text for message in read_file(data)[0].messages] == ["One.", "Two."]


def test_a_qwen_code_session_is_read_as_such() -> None:
    source, places = read_file(qwen_code())
    assert (source.form, source.dialect) == ("Qwen Code session", "openai_chat")
    assert speakers(source) == ["user", "model", "tool", "model"]
    assert source.messages[0].text == "Which port?"
    assert outputs(source) == ["port 1"]
    assert places == (2, 4, 5, 6)


def test_a_compressed_qwen_code_session_starts_from_what_replaced_it() -> None:
    history = [{"role": "user", "parts": [{"text": "A summary."}]}]
    compressed = {"type": "system", "subtype": "chat_compression", "uuid": "c1", "parentUuid": "a2"}
    follow = {"type": "user", "uuid": "u9", "parentUuid": "c1", "sessionId": "9a"}
    data = qwen_code() + lines(
        {**compressed, "systemPayload": {"compressedHistory": history}},
        {**follow, "message": {"role": "user", "parts": [{"text": "Next."}]}},
    )
    assert [message.text for message in read_file(data)[0].messages] == ["A summary.", "Next."]


def test_a_result_that_gemini_cli_recorded_twice_is_read_once() -> None:
    source, places = read_file(gemini_cli())
    assert (source.dialect, source.options.model) == ("gemini", "gemini-2.5-pro")
    assert speakers(source) == ["user", "user", "model", "tool", "model"]
    assert len(outputs(source)) == 1
    assert len(source.messages[2].calls) == 1
    assert "update is available" not in str(source.messages)
    assert "Never mind." not in str(source.messages)
    assert places == (2, 3, 4, 7, 9)


def test_a_result_that_gemini_cli_recorded_only_with_its_call_is_read() -> None:
    data = lines(*(row for line in gemini_cli().splitlines() if (row := json.loads(line)).get("id") != "m2"))
    source, _ = read_file(data)
    assert speakers(source) == ["user", "user", "model", "tool", "model"]


def test_an_earlier_gemini_cli_session_is_one_object() -> None:
    messages = [
        {"id": "1", "type": "user", "content": "Hi."},
        {"id": "2", "type": "gemini", "content": "Hello."},
    ]
    session = {"sessionId": "34d2", "projectHash": "9c", "messages": messages}
    for data in (json.dumps(session).encode(), json.dumps(session, indent=1).encode()):
        source, _ = read_file(data)
        assert source.form == "Gemini CLI session"
        assert [message.text for message in source.messages] == ["Hi.", "Hello."]


def test_a_pi_session_is_its_newest_branch() -> None:
    source, places = read_file(pi())
    assert (source.dialect, source.options.model) == ("anthropic", "claude-sonnet-4-5")
    assert source.system == "Be brief."
    assert [tool.name for tool in source.tools] == ["bash"]
    assert speakers(source) == ["user", "model", "tool", "model", "user"]
    assert "dead branch" not in str(source.messages)
    assert seals(source) == ["c2ln"]  # not what another wire sealed
    assert places == (4, 5, 6, 9, 10)


def test_the_id_of_an_item_behind_a_call_id_of_pi_is_dropped() -> None:
    source, _ = read_file(pi().replace(b"toolu_1", b"call_1|fc_1"))
    assert [call.native_id for call in source.messages[1].calls] == ["call_1"]
    assert outputs(source) == ["a.txt"]
    assert "call_reconstructed" not in {repair.kind for repair in source.adopted()[1]}


def test_a_compacted_pi_session_is_the_summary_and_what_it_kept() -> None:
    data = pi() + lines(
        {"type": "compaction", "id": "c1", "parentId": "e7", "summary": "Files.", "firstKeptEntryId": "e6"},
        {"type": "message", "id": "e8", "parentId": "c1", "message": {"role": "user", "content": "Next."}},
    )
    texts = [message.text for message in read_file(data)[0].messages]
    assert texts == ["Files.", "It is a.txt.", "Thanks.", "Next."]


def test_an_opencode_export_has_its_results_between_the_steps() -> None:
    source, _ = read_file(opencode())
    assert (source.dialect, source.options.model) == ("anthropic", "claude-sonnet-4-5")
    assert speakers(source) == ["user", "model", "tool", "model"]
    assert outputs(source) == ["a.txt", "denied"]
    assert len(source.messages[1].calls) == 3
    assert seals(source) == ["c2ln"]
    assert "Undone." not in str(source.messages)


def test_a_copilot_session_is_read_without_its_subagents() -> None:
    source, places = read_file(copilot())
    assert (source.dialect, source.options.model) == ("openai_responses", "gpt-5.5")
    assert source.system == "Be brief."
    assert outputs(source) == ["port 1", "denied"]
    assert "subagent" not in str(source.messages)
    assert source.messages[0].text == "Today. Which port?"
    assert source.messages[-1].text == "Port 1."
    assert seals(source)
    assert places == (2, 4, 4, 4, 4, 7, 8, 9, 9)


def test_what_cline_only_shows_is_dropped() -> None:
    source, _ = read_file(cline())
    assert source.form == "Cline session"
    assert source.system == "Be brief."
    assert speakers(source) == ["user", "model", "tool", "model"]
    assert "Only shown." not in str(source.messages)
    assert "port 1" in str(outputs(source))


def test_a_continue_session_has_its_results_after_the_calls() -> None:
    source, _ = read_file(continue_session())
    assert (source.form, source.options.model) == ("Continue session", "gpt-5.5")
    assert speakers(source) == ["user", "model", "tool", "model"]
    assert source.messages[0].text == "See a.txt.\n\nWhich port?"
    assert outputs(source) == ["port 1"]
    assert any(type(block) is Reasoning for block in source.messages[1].blocks)


def test_a_list_of_sessions_is_refused_with_advice() -> None:
    listed = [{"sessionId": "f61d", "title": "Ports", "dateCreated": "1794"}]
    with pytest.raises(TranscriptError, match="list of sessions") as raised:
        read_file(json.dumps(listed).encode())
    assert raised.value.hint


def test_the_newest_conversation_in_the_database_of_llm_is_read() -> None:
    source, _ = read_file(llm_database())
    assert (source.form, source.options.model) == ("llm log", "gpt-4.1")
    assert source.system == "Be brief."
    assert [tool.name for tool in source.tools] == ["get_weather"]
    assert speakers(source) == ["user", "model", "tool", "model"]
    assert source.messages[0].text == "A note.\nWeather in Paris?"
    assert outputs(source) == ["18C"]


ENDLESS = """
    CREATE VIEW responses AS WITH RECURSIVE more(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM more)
    SELECT id, '' AS datetime_utc, '' AS conversation_id, '' AS prompt, '' AS response FROM more;
"""


@pytest.mark.parametrize(
    "script", ["CREATE TABLE other (id);", "CREATE TABLE responses (id, datetime_utc);", ENDLESS]
)
def test_another_database_is_refused_with_advice(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "_STEPS", 2)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(script)
        data = database.serialize()
    for hostile in (data, data[:5000], data[:16] + bytes(5000)):
        with pytest.raises(TranscriptError) as raised:
            read_file(hostile)
        assert raised.value.path
        assert raised.value.hint


def test_json_lines_of_an_unknown_kind_are_named_so() -> None:
    with pytest.raises(
        TranscriptError, match=r"JSON lines of an unknown kind; known are .*Qwen Code"
    ) as raised:
        read_file(lines({"event": "started"}, {"event": "ended"}))
    assert (raised.value.path, bool(raised.value.hint)) == ("line 1", True)


def test_an_error_names_the_line_of_the_file() -> None:
    with pytest.raises(TranscriptError) as raised:
        read_file(lines({"type": "mode"}, claude_line("user", "u1", None, content=7)))
    assert raised.value.path.startswith("line 2, messages[0]")


HOSTILE: tuple[object, ...] = (None, True, 7, -1.5, "", "x", [], {}, [[]], [None], [{}], {"type": []})


def broken(value: Any) -> Iterator[Any]:
    """The value with each of its fields replaced by each hostile one."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        for other in (*HOSTILE, *broken(item)):
            copied = value.copy()
            copied[key] = other
            yield copied


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_a_broken_session_file_is_read_or_refused_in_words(sample: Callable[[], bytes]) -> None:
    data = sample()
    if sample in (llm_logs, opencode, cline, continue_session):
        documents = [json.dumps(document).encode() for document in broken(json.loads(data))]
    else:
        rows = [json.loads(line) for line in data.splitlines()]
        documents = [
            lines(*changed) for changed in broken(rows) if all(isinstance(row, dict) for row in changed)
        ]
    assert len(documents) > 300
    for document in documents:
        try:
            source, _ = read_file(document)
            source.adopted()
        except (TranscriptError, UsageError) as error:
            assert error.hint, document


def targets_that_accept(source: SourceRequest) -> list[str]:
    """The emulated targets without a complaint; every target must at least get a request."""
    for to in NAMES:
        write_request(source, to=to)
    return [
        to
        for to in EMULATED
        if not complaints_about(
            write_request(source, to=to, model=default_model(to)).request, to, default_model(to)
        )
    ]


@pytest.mark.parametrize(("form", "sample"), SAMPLES.items(), ids=SAMPLES)
def test_every_sample_is_recognised_and_accepted_everywhere(form: str, sample: Callable[[], bytes]) -> None:
    source, _ = read_file(sample())
    assert source.form == form
    # Invented seals mean nothing to the emulator of their own wire.
    foreign = set(EMULATED) - ({source.dialect} if seals(source) else set())
    assert foreign <= set(targets_that_accept(source))
    assert examine(source, ["all"]).messages == read_history(sample()).message_count


FORMS = {
    "claude-code": "Claude Code session",
    "codex": "Codex rollout",
    "gemini-cli": "Gemini CLI session",
    "qwen-code": "Qwen Code session",
    "pi": "pi session",
    "opencode": "opencode session",
    "copilot": "Copilot CLI session",
    "cline": "Cline session",
    "continue": "Continue session",
    "llm": "llm log",
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real session files is not here")
@pytest.mark.parametrize("program", FORMS)
def test_every_real_session_file_is_read_and_accepted_everywhere(program: str) -> None:
    found = 0
    for path in sorted((CORPUS / program).iterdir()):
        data = path.read_bytes()
        if data.startswith(b"[") and b'"dateCreated"' in data:
            with pytest.raises(TranscriptError, match="list of sessions"):
                read_file(data)
            continue
        source, _ = read_file(data)
        spoken = speakers(source)
        calls = {call.native_id for message in source.messages for call in message.calls}
        assert source.form == FORMS[program], path
        assert spoken[0] == "user", path
        assert len(outputs(source)) <= len(calls), path
        compacted = b'"compact_boundary"' in data
        assert bool(calls) == ("model" in spoken and (len(spoken) > 2) and not compacted), path
        assert targets_that_accept(source) == list(EMULATED), path
        examination = examine(source)
        assert examination.messages == read_history(data).message_count == len(spoken), path
        errors = {
            finding.kind
            for diagnosis in examination.diagnoses
            for finding in diagnosis.findings
            if finding.level == "error"
        }
        # A session ends with a reply, and its client decides what reasoning it sends back.
        assert not errors & {"ended", "reasoning_dropped"}, path
        found += 1
    assert found
