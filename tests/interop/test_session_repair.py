"""Session files repaired in their own format: the faulty lines change, all others stay, and a second repair finds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interop import session_samples as samples
from interop.session_samples import claude_line, lines
from segue.interop.agents.repaired_session import RepairedSession, repair_session
from segue.interop.doctor import examine
from segue.interop.session_files import read_file, read_session_file

Rows = list[dict[str, Any]]


def repaired(data: bytes) -> RepairedSession:
    session = read_session_file(data)
    assert session is not None
    found = repair_session(data, session.form)
    assert found is not None
    return found


def effects(data: bytes) -> dict[str, str]:
    return {fault.kind: fault.effect for fault in repaired(data).faults}


def rows_of(data: bytes) -> Rows:
    return [json.loads(line) for line in data.splitlines()]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def claude(*, first: str = "toolu_1", second: str = "toolu_2") -> Rows:
    """Two tool turns, with lines between them that are not sent."""
    rows = [
        claude_line("user", "u1", None, content="one"),
        {"type": "attachment", "uuid": "t1", "parentUuid": "u1", "isSidechain": False, "sessionId": "5f1c"},
        claude_line("assistant", "a1", "t1", id="msg_1", model="m", content=[text("I look.")]),
        claude_line("assistant", "a2", "a1", id="msg_1", model="m", content=[use(first)]),
        claude_line("user", "r1", "a2", content=[result(first, "one.txt")]),
        claude_line("assistant", "a3", "r1", id="msg_2", model="m", content=[text("One.")]),
        claude_line("user", "u2", "a3", content="two"),
        claude_line("assistant", "a4", "u2", id="msg_3", model="m", content=[use(second)]),
        claude_line("user", "r2", "a4", content=[result(second, "two.txt")]),
        claude_line("assistant", "a5", "r2", id="msg_4", model="m", content=[text("Two.")]),
    ]
    return [
        {**row, "timestamp": f"2026-11-16T02:48:{number:02}.000Z"} if "uuid" in row else row
        for number, row in enumerate(rows)
    ]


def without(rows: Rows, uuid: str) -> Rows:
    """Without a row; what followed it follows the one before."""
    removed = next(row for row in rows if row.get("uuid") == uuid)
    return [
        {**row, "parentUuid": removed["parentUuid"]} if row.get("parentUuid") == uuid else row
        for row in rows
        if row is not removed
    ]


def with_content(rows: Rows, uuid: str, content: object) -> Rows:
    return [
        {**row, "message": {**row["message"], "content": content}} if row.get("uuid") == uuid else row
        for row in rows
    ]


def with_reply_id(rows: Rows, uuid: str, reply: str) -> Rows:
    return [
        {**row, "message": {**row["message"], "id": reply}} if row.get("uuid") == uuid else row
        for row in rows
    ]


CLAUDE_FAULTS: dict[str, tuple[Callable[[Rows], Rows], dict[str, str]]] = {
    "call without a result": (lambda rows: without(rows, "r1"), {"call_closed": "lost"}),
    "result without a call": (lambda rows: without(rows, "a2"), {"call_reconstructed": "lost"}),
    "empty prompt": (lambda rows: with_content(rows, "u2", ""), {"blank_text": "refused"}),
    "two replies with one id": (
        lambda rows: with_reply_id(rows, "a3", "msg_1"),
        {"reply_id_repeated": "lost"},
    ),
}


@pytest.mark.parametrize("fault", CLAUDE_FAULTS)
def test_a_fault_in_a_claude_code_session_is_repaired_in_its_lines_alone(fault: str) -> None:
    plant, expected = CLAUDE_FAULTS[fault]
    broken = lines(*plant(claude()))
    fixed = repaired(broken)
    assert effects(broken) == expected
    assert effects(fixed.data) == {}
    assert repaired(fixed.data).data == fixed.data
    changed = set(broken.splitlines()) - set(fixed.data.splitlines())
    assert len(changed) <= 1


def test_sound_sessions_stay_as_they_are() -> None:
    for data in (lines(*claude()), samples.qwen_code()):
        assert repaired(data).faults == ()
        assert repaired(data).data == data


def test_ids_that_are_illegal_or_repeated_are_renamed_in_the_call_and_its_own_result() -> None:
    illegal = repaired(lines(*claude(second="functions.Bash:0")))
    assert [fault.effect for fault in illegal.faults] == ["refused"]
    repeated = repaired(lines(*claude(second="toolu_1")))
    assert [fault.effect for fault in repeated.faults] == ["lost"]
    for fixed in (illegal, repeated):
        blocks = [
            block
            for row in rows_of(fixed.data)
            if isinstance(row.get("message", {}).get("content"), list)
            for block in row["message"]["content"]
        ]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = {
            block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"
        }
        assert calls[0] == "toolu_1"
        assert calls[1].startswith("toolu_")
        assert results == {calls[0]: "one.txt", calls[1]: "two.txt"}


def test_the_text_of_a_result_without_a_call_is_kept_as_text() -> None:
    fixed = repaired(lines(*without(claude(), "a2")))
    source, _ = read_file(fixed.data)
    assert "one.txt" in str(source.body)
    assert "tool_result" not in str(source.body["messages"][:3]) if source.body else False


def test_the_row_that_closes_a_call_stands_between_the_call_and_what_followed() -> None:
    fixed = rows_of(repaired(lines(*without(claude(), "r1"))).data)
    closing = next(row for row in fixed if row.get("parentUuid") == "a2")
    following = next(row for row in fixed if row.get("uuid") == "a3")
    assert closing["message"]["content"][0]["is_error"] is True
    assert following["parentUuid"] == closing["uuid"]
    times = [row["timestamp"] for row in fixed if row.get("type") in ("user", "assistant")]
    assert times == sorted(set(times))


def test_what_claude_code_heals_is_a_note_and_changes_nothing() -> None:
    data = samples.claude_code()  # one of two calls was answered before the user interrupted
    assert effects(data) == {"call_closed": "healed"}
    assert repaired(data).data == data
    source, at = read_file(data)
    assert examine(source, lines=at, session=repaired(data)).clean


def codex_item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-09-16T09:32:07Z", "type": "response_item", "payload": payload}


def codex(*items: dict[str, Any], numbered: bool = False) -> bytes:
    rows = [{"timestamp": "t", "type": "session_meta", "payload": {"id": "0199", "cwd": "/src"}}, *items]
    return lines(*({"ordinal": number, **row} if numbered else row for number, row in enumerate(rows)))


def codex_call(call_id: str) -> dict[str, Any]:
    return codex_item(type="function_call", name="shell", arguments="{}", call_id=call_id)


def codex_output(call_id: str, output: str) -> dict[str, Any]:
    return codex_item(type="function_call_output", call_id=call_id, output=output)


def test_codex_gets_ids_of_their_own_and_no_thoughts_without_a_seal() -> None:
    broken = codex(
        codex_item(type="message", role="user", content=[{"type": "input_text", "text": "go"}]),
        codex_item(type="reasoning", summary=[], encrypted_content=None),
        codex_call("call_1"),
        codex_output("call_1", "one"),
        codex_call("call_1"),
        codex_output("call_1", "two"),
        codex_call("c" * 65),
        codex_output("c" * 65, "three"),
        codex_output("call_gone", "four"),
        numbered=True,
    )
    assert effects(broken) == {
        "reasoning_dropped": "refused",
        "id_replaced": "refused",
        "call_reconstructed": "lost",
    }
    fixed = rows_of(repaired(broken).data)
    assert [row["ordinal"] for row in fixed] == list(range(len(fixed)))
    payloads = [row["payload"] for row in fixed]
    called = [payload["call_id"] for payload in payloads if payload.get("type") == "function_call"]
    answered = {p["call_id"]: p["output"] for p in payloads if p.get("type") == "function_call_output"}
    assert called[0] == "call_1"
    assert answered == dict(zip(called, ("one", "two", "three"), strict=True))
    assert "four" in str(payloads[-1]["content"])
    assert effects(repaired(broken).data) == {}


def test_codex_is_judged_from_its_last_compaction_on() -> None:
    broken = codex(
        codex_item(type="reasoning", summary=[], encrypted_content=None),
        {
            "type": "compacted",
            "payload": {"message": "", "replacement_history": [{"type": "reasoning", "summary": []}]},
        },
        codex_item(type="message", role="user", content=[{"type": "input_text", "text": "go"}]),
    )
    fixed = rows_of(repaired(broken).data)
    assert len(fixed) == 4
    assert fixed[2]["payload"]["replacement_history"] == []


def test_a_result_that_gemini_cli_stored_twice_is_kept_once() -> None:
    broken = samples.gemini_cli()
    assert effects(broken) == {"result_superseded": "refused"}
    fixed = repaired(broken)
    assert fixed.data.count(b"functionResponse") == broken.count(b"functionResponse") - 1
    assert effects(fixed.data) == {}
    source, _ = read_file(fixed.data)
    assert "port 1" in str(source.body)


def gemini(*messages: dict[str, Any]) -> bytes:
    head = {"sessionId": "34d2", "projectHash": "9c", "startTime": "2026-11-16T02:49:35Z", "kind": "main"}
    return lines(head, *messages)


def test_gemini_cli_sends_calls_and_results_as_they_stand_so_both_sides_are_completed() -> None:
    response = {"functionResponse": {"id": "gone_1", "name": "read", "response": {"output": "port 1"}}}
    call = {"functionCall": {"id": "open_1", "name": "read", "args": {}}}
    for broken in (
        gemini(
            {"id": "m1", "type": "user", "content": [{"text": "Which port?"}]},
            {"id": "g1", "type": "gemini", "content": [{"text": "I look."}, call]},
            {"id": "m2", "type": "user", "content": [response]},
        ),
        gemini(
            {
                "$set": {
                    "messages": [
                        {"id": "m1", "type": "user", "content": [{"text": "Which port?"}]},
                        {
                            "id": "g1",
                            "type": "gemini",
                            "content": "",
                            "toolCalls": [{"id": "open_1", "name": "read"}],
                        },
                        {"id": "m2", "type": "user", "content": [response]},
                    ]
                }
            }
        ),
    ):
        assert effects(broken) == {"call_closed": "refused", "call_reconstructed": "refused"}
        fixed = repaired(broken)
        assert effects(fixed.data) == {}
        body = str(read_file(fixed.data)[0].body)
        assert "port 1" in body
        assert "No result" in body


def pi(*messages: dict[str, Any]) -> bytes:
    head = {"type": "session", "version": 3, "id": "01a1", "timestamp": "t", "cwd": "/src"}
    entries = [
        {
            "type": "message",
            "id": f"e{number}",
            "parentId": f"e{number - 1}" if number else None,
            "message": message,
        }
        for number, message in enumerate(messages)
    ]
    return lines(head, *entries)


def test_pi_gets_legal_ids_results_with_calls_and_counts() -> None:
    reply = {"role": "assistant", "api": "anthropic-messages", "provider": "anthropic", "model": "m"}
    call = {"type": "toolCall", "id": "functions.read:0", "name": "read", "arguments": {}}
    broken = pi(
        {"role": "user", "content": [text("go")]},
        {**reply, "content": [call], "usage": {}},
        {
            "role": "toolResult",
            "toolCallId": "functions.read:0",
            "toolName": "read",
            "content": [text("one")],
        },
        {"role": "toolResult", "toolCallId": "gone", "toolName": "read", "content": [text("two")]},
        {**reply, "content": [text("Done.")]},
    )
    assert effects(broken) == {
        "id_replaced": "refused",
        "call_reconstructed": "refused",
        "usage_missing": "refused",
    }
    fixed = rows_of(repaired(broken).data)
    assert fixed[2]["message"]["content"][0]["id"] == fixed[3]["message"]["toolCallId"]
    assert fixed[4]["message"]["role"] == "user"
    assert "two" in str(fixed[4])
    assert fixed[5]["message"]["usage"]["totalTokens"] == 0
    assert effects(repaired(broken).data) == {}


def test_ids_of_the_responses_wire_stay_in_a_pi_session_of_that_wire() -> None:
    reply = {"role": "assistant", "api": "openai-responses", "provider": "openai", "model": "m", "usage": {}}
    call = {"type": "toolCall", "id": "call_1|fc_1", "name": "read", "arguments": {}}
    sound = pi(
        {"role": "user", "content": [text("go")]},
        {**reply, "content": [call]},
        {"role": "toolResult", "toolCallId": "call_1|fc_1", "toolName": "read", "content": [text("one")]},
    )
    assert repaired(sound).faults == ()


def pi_turn(api: str, *call_ids: str) -> tuple[dict[str, Any], ...]:
    reply = {"role": "assistant", "api": api, "provider": "p", "model": "m", "usage": {}}
    calls = [{"type": "toolCall", "id": name, "name": "read", "arguments": {}} for name in call_ids]
    results = [
        {"role": "toolResult", "toolCallId": name, "toolName": "read", "content": [text(f"{name} {number}")]}
        for number, name in enumerate(call_ids)
    ]
    said = {**reply, "content": [text("Done.")]}
    return {"role": "user", "content": [text("go")]}, {**reply, "content": calls}, *results, said


@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions", "google-generative-ai"])
def test_a_call_id_that_pi_and_its_provider_take_twice_stays(api: str) -> None:
    twice = pi(*pi_turn(api, "toolu_1"), *pi_turn(api, "toolu_1"))
    assert repaired(twice).data == twice
    assert repaired(twice).faults == ()
    findings = examine(read_file(twice)[0], session=repaired(twice)).diagnoses[0].findings
    assert {(finding.kind, finding.level) for finding in findings} <= {("id_replaced", "note")}
    assert all("pi sends ids as they stand" in finding.program for finding in findings)


@pytest.mark.parametrize(
    "messages",
    [
        pi_turn("anthropic-messages", "toolu_1", "toolu_1"),
        pi_turn("openai-responses", "call_1") * 2,
    ],
    ids=["in one reply of the Messages wire", "on the Responses wire"],
)
def test_a_call_id_that_pis_provider_refuses_twice_is_renamed_and_reported(
    messages: tuple[dict[str, Any], ...],
) -> None:
    twice = pi(*messages)
    (fault,) = repaired(twice).faults
    assert "second time" in fault.what
    fixed = rows_of(repaired(twice).data)
    calls = [
        block["id"]
        for row in fixed
        for block in row.get("message", {}).get("content", ())
        if block["type"] == "toolCall"
    ]
    assert len(set(calls)) == 2
    assert [row["message"]["toolCallId"] for row in fixed if "toolCallId" in row.get("message", {})] == calls


def test_qwen_code_loses_neither_a_repeated_call_nor_a_result_without_one() -> None:
    rows = rows_of(samples.qwen_code())
    again = [
        {**row, "uuid": f"{row['uuid']}x", "parentUuid": parent}
        for row, parent in zip(rows[3:6], ("a2", "a1x", "r1x"), strict=True)
    ]
    broken = lines(*rows, *again)
    assert effects(broken) == {"id_replaced": "lost"}
    assert effects(repaired(broken).data) == {}
    parts = [
        part for row in rows_of(repaired(broken).data) for part in row.get("message", {}).get("parts", ())
    ]
    assert len({part["functionCall"]["id"] for part in parts if "functionCall" in part}) == 2
    orphan = lines(*(row for row in rows if row["uuid"] != "a1"))
    assert effects(orphan) == {"call_reconstructed": "lost"}
    assert "port 1" in str(read_file(repaired(orphan).data)[0].body)


CONFUSIONS = [("toolu_1", "toolu_2"), ("toolu_2", "toolu_1"), ("_1", "."), ("call_ls", "call_make")]
SAMPLES = {
    "claude": lines(*claude()),
    "claude interrupted": samples.claude_code(),
    "codex": samples.codex(),
    "gemini": samples.gemini_cli(),
    "qwen": samples.qwen_code(),
    "pi": samples.pi(),
    **{
        f"pi on {api}": pi(*pi_turn(api, "toolu_1"), *pi_turn(api, "toolu_2", "toolu_3"))
        for api in ("anthropic-messages", "openai-responses", "openai-completions")
    },
}


FORMS = {name: session.form for name, data in SAMPLES.items() if (session := read_session_file(data))}


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
def test_whatever_is_broken_a_repair_is_complete_and_touches_no_other_line(
    name: str, data: st.DataObject
) -> None:
    """Rows are dropped, doubled and swapped, and ids confused."""
    rows = rows_of(SAMPLES[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(rows) - 1))
        # Programs write the lines of a tree in the order of the tree.
        ways = ["drop", "double", "confuse", *(["swap"] if name in ("codex", "gemini") else [])]
        match data.draw(st.sampled_from(ways)):
            case "drop" if len(rows) > 2:
                del rows[at]
            case "double":
                rows.insert(at, rows[at])
            case "swap":
                other = data.draw(st.integers(0, len(rows) - 1))
                rows[at], rows[other] = rows[other], rows[at]
            case _:
                # In one row alone, or in all that follow: so a later pair has the id of an earlier one.
                old, new = data.draw(st.sampled_from(CONFUSIONS))
                end = data.draw(st.sampled_from([at + 1, len(rows)]))
                rows[at:end] = [json.loads(json.dumps(row).replace(old, new)) for row in rows[at:end]]
    broken = lines(*rows)
    form = FORMS[name]
    once = repair_session(broken, form)
    assert once is not None
    again = repair_session(once.data, form)
    assert again is not None
    assert [fault for fault in again.faults if fault.effect != "healed"] == []
    assert again.data == once.data
    # No repair without a finding, and no finding without a reason.
    assert once.broken == (once.data != broken)
    for fault in once.faults:
        assert fault.what
        assert fault.then
        assert bool(fault.fix) == (fault.effect != "healed")
