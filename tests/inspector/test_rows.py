"""Bodies side by side and one after the other: each change stands on the line that it concerns, and nothing else is marked."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inspector.story import Agent, Session, Stage
from segue.inspector.record.pieces import cut, value_in
from segue.inspector.views.line_diff import diff_lines, pretty_lines
from segue.inspector.views.wire_rows import ID_WRITTEN, BodyLine, StepRow, ids_written, rows_of
from segue.transcript.repairs import Repair


def _body(*messages: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"model": "m", "system": "s" * 300, "messages": messages, **fields}).encode()


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _difference(old: bytes, new: bytes) -> list[tuple[str, tuple[str, ...]]]:
    lines = diff_lines(pretty_lines(cut(old)), pretty_lines(cut(new)))
    return [(line.sign, line.parts) for line in lines if line.sign != " "]


def test_a_message_is_read_wherever_it_stands_in_its_list() -> None:
    said = [_said("user", "q" * 300), _said("assistant", "a" * 300), _said("user", "last")]
    read = [value_in(piece) for place, piece in cut(_body(*said)) if place.startswith("messages")]
    assert read == said


def test_what_differs_in_a_line_is_marked_word_by_word() -> None:
    old = _body(_said("user", "Fix the refund of the ledger, please. " + "x" * 500))
    new = _body(_said("user", "Fix the credit of the ledger, please. " + "x" * 500))
    (removed, was), (added, now) = _difference(old, new)
    assert (removed, added) == ("−", "+")
    assert (was[1::2], now[1::2]) == (("refund",), ("credit",))
    assert len("".join(was)) < 300, "what is equal is cut short around it"


def test_a_mark_that_is_gone_is_shown_and_a_comma_is_no_difference() -> None:
    first, mark = _said("user", "q" * 300), {"cache_control": {"type": "ephemeral"}}
    marked = {"role": "user", "content": [{**first["content"][0], **mark}]}
    gone = _difference(_body(marked), _body(first))
    assert {sign for sign, _ in gone} == {"−"}
    assert "".join("".join(parts).strip() for _, parts in gone) == '"cache_control": {"type": "ephemeral"}'


@given(
    was=st.lists(st.text("ab ", max_size=12), max_size=30),
    now=st.lists(st.text("ab ", max_size=12), max_size=30),
)
def test_without_the_removed_lines_it_is_the_new_text(was: list[str], now: list[str]) -> None:
    lines = diff_lines(was, now)
    for sign, text in (("−", now), ("+", was)):
        left = [line.text for line in lines if line.sign != sign]
        whole = iter(text)
        for line in left:
            if line.startswith("… "):
                for _ in range(int(line.split()[1])):
                    next(whole)
            else:
                assert line == next(whole)
        assert next(whole, None) is None


def test_a_megabyte_is_compared_in_time() -> None:
    said = [_said("user" if n % 2 else "assistant", f"{n} " + "word " * 190) for n in range(1000)]
    old = _body(*said)
    changed = [*said[:400], _said("user", "another " * 100), *said[401:], _said("user", "new")]
    new = _body(*changed)
    assert len(old) > 1_000_000
    best = 9.9
    for _ in range(3):
        begun = perf_counter()
        found = _difference(old, new)
        best = min(best, perf_counter() - begun)
    assert found
    assert best < 0.6, "0.2 s are allowed; three times as much on a busy machine"


def test_results_and_words_in_one_message_stand_beside_two_of_another_wire() -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
    client = _body(
        _said("user", "one"),
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": "stop"}]},
        _said("assistant", "two"),
        _said("user", "three"),
    )
    called = {"id": "c00000000", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
    provider = _body(
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c00000000", "name": "Bash", "content": "a"},
        {"role": "assistant", "content": "Understood."},
        {"role": "user", "content": "stop"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    )
    rows = rows_of(
        client, provider, "anthropic", "mistral", [Repair("bridged", "mistral", path="messages[3]")]
    )
    alone = [row for row in rows if row.client is None]
    assert [row.provider.lines[0].key for row in alone if row.provider] == ["messages[3] assistant"]
    assert [row.marked for row in rows[1:]].count([]) == len(rows) - 2
    assert not [row for row in rows if row.provider is None]


def test_a_thought_is_marked_as_a_whole_and_counted_once() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "S" * 400}
    client = _body(
        _said("user", "one"),
        {"role": "assistant", "content": [thought, {"type": "text", "text": "two"}]},
        _said("user", "three"),
    )
    provider = _body(*({"role": role, "content": "x"} for role in ("user", "assistant", "user")))
    repairs = [
        Repair("reasoning_dropped", "mistral", "messages[1].blocks[0]"),
        Repair("seal_dropped", "mistral", "messages[1].blocks[0]"),
    ]
    rows = rows_of(client, provider, "anthropic", "mistral", repairs)
    row = rows[2]
    assert row.client is not None
    marked: list[BodyLine] = [line for line in row.client.lines if line.sign]
    assert [line.key for line in marked] == ["content[0]", "type", "thinking", "signature"]
    assert [sign for sign, _ in row.marked] == ["−"]
    assert "more characters" in marked[-1].value


def test_another_model_is_shown_beside_the_one_that_answers_now(
    stage: Stage, agent: Agent, session: Session
) -> None:
    page = session.get(f"/c/{agent.conversation}/as?model=mistral/mistral-large-latest&form=beside")[
        2
    ].decode()
    assert "gets now" in page and "would get" in page
    assert "(your next message)" in page and "MIS-02" in page
    alone = session.get(f"/c/{agent.conversation}/as?model={agent.model}&form=beside")[2].decode()
    assert "gets now" not in alone


def _call(number: int, name: str = "Bash") -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"toolu_client{number}",
        "name": name,
        "input": {"command": f"ls {number}"},
    }


def _result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": "a"}


def _marked(rows: list[StepRow]) -> list[tuple[str, str, str]]:
    """The line of its message, the first line of each mark, and its sign."""
    return [
        (side.lines[0].key, line.key, line.sign)
        for row in rows[1:]
        for side in (row.client, row.provider)
        if side is not None
        for line, begins in side.runs()
        if line.sign and begins
    ]


def test_a_thought_that_was_sent_unchanged_has_no_mark() -> None:
    """The signatures of two calls were dropped; the model's own thoughts went back as they were."""
    thought = {"type": "thinking", "thinking": "", "signature": "S" * 400}
    mine = {"role": "assistant", "content": [thought, _call(0)]}
    other = {"role": "assistant", "content": [{"type": "text", "text": "now"}, _call(1), _call(2)]}
    history = [
        _said("user", "one"),
        mine,
        {"role": "user", "content": [_result("toolu_client0")]},
        other,
        {"role": "user", "content": [_result("toolu_client1"), _result("toolu_client2")]},
    ]
    body = _body(*history)
    repairs = [Repair("seal_dropped", "anthropic", "messages[3].blocks[2]", ("c2",), ("toolu_client2",))]
    rows = rows_of(body, body, "anthropic", "anthropic", repairs)
    assert _marked(rows) == [("messages[3] assistant", "content[2]", "−")]
    none = rows_of(body, body, "anthropic", "anthropic", [])
    assert _marked(none) == []
    assert ids_written(rows) == 0


def test_a_mark_stands_on_the_message_that_its_path_means_where_a_wire_holds_two_in_one() -> None:
    """The path counts results and words of the user as two messages; this wire has them in one."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "S" * 400}
    body = _body(
        _said("user", "one"),
        {"role": "assistant", "content": [thought, _call(0)]},
        {"role": "user", "content": [_result("toolu_client0"), {"type": "text", "text": "stop"}]},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "two"}]},
        _said("user", "three"),
    )
    repairs = [
        Repair("reasoning_dropped", "mistral", "messages[4]"),
        Repair("blank_text", "mistral", "messages[5]"),
    ]
    rows = rows_of(body, body, "anthropic", "anthropic", repairs)
    assert _marked(rows) == [
        ("messages[3] assistant", "content[0]", "−"),
        ("messages[4] user", "messages[4] user", "~"),
    ]


def test_an_argument_that_is_named_as_reasoning_is_no_reasoning() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "S" * 400}
    call = {**_call(0), "input": {"thought": "one", "reasoning": {"thinking": "two"}}}
    body = _body(
        _said("user", "one"), {"role": "assistant", "content": [thought, call]}, _said("user", "thinking")
    )
    rows = rows_of(
        body, body, "anthropic", "anthropic", [Repair("reasoning_dropped", "mistral", "messages[1]")]
    )
    assert _marked(rows) == [("messages[1] assistant", "content[0]", "−")]


def test_what_the_client_never_had_is_marked_on_its_message() -> None:
    body = _body(_said("user", "one"), _said("assistant", "two"), _said("user", "three"))
    repairs = [Repair("reasoning_dropped", "mistral", "messages[1]")]
    rows = rows_of(body, body, "anthropic", "anthropic", repairs)
    assert _marked(rows) == [("messages[1] assistant", "messages[1] assistant", "−")]


def test_an_id_that_is_written_for_the_provider_is_noted_and_counted_once() -> None:
    def history(*names: str) -> bytes:
        calls = [{**_call(number), "id": name} for number, name in enumerate(names)]
        results = [_result(name) for name in names]
        return _body(
            _said("user", "one"),
            {"role": "assistant", "content": calls},
            {"role": "user", "content": results},
        )

    rows = rows_of(
        history("toolu_client0", "toolu_client1"),
        history("toolu_c0", "toolu_client1"),
        "anthropic",
        "anthropic",
        [],
    )
    noted = [
        (line.key, line.text)
        for row in rows
        for side in (row.client, row.provider)
        if side is not None
        for line in side.lines
        if line.note == ID_WRITTEN
    ]
    assert noted == [("id", "toolu_c0"), ("tool_use_id", "toolu_c0")]
    assert ids_written(rows) == 1
    assert _marked(rows) == [], "it is no repair"


def test_a_request_to_the_first_model_marks_as_many_drops_as_its_list_has(
    stage: Stage, agent: Agent, session: Session
) -> None:
    requests = session.json(f"/c/{agent.conversation}/requests.json")["requests"]
    back = next(one for one in reversed(requests) if one["route"].startswith("anthropic/"))
    dropped = [one for one in back["repairs"] if one["kind"] == "seal_dropped"]
    page = session.get(f"/r/{back['id']}")[2].decode()
    columns = (
        page.partition('data-col="answer"')[0]
        .partition('<details class="early"')[2]
        .partition("</summary>")[2]
    )
    assert len(dropped) == columns.count("− seal dropped") == 2
    assert "messages[11] assistant" in page and "id written for this provider" in page
    assert "5 ids of calls written for this provider" in page


def test_a_message_that_is_reasoning_itself_is_marked_and_its_call_is_not() -> None:
    items = [
        {"role": "user", "content": "one"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "now"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "S" * 100},
        {"type": "function_call", "call_id": "call_1", "name": "Bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a"},
    ]
    body = json.dumps({"model": "m", "input": items}).encode()
    repairs = [Repair("reasoning_dropped", "openai_responses", "messages[1]")]
    rows = rows_of(body, body, "openai_responses", "openai_responses", repairs)
    marked = [line for row in rows if row.client is not None for line in row.client.lines if line.sign]
    assert marked[0].key == "input[2] reasoning"
    assert {"type", "encrypted_content"} <= {line.key for line in marked}
    assert not {"arguments", "text"} & {line.key for line in marked}
