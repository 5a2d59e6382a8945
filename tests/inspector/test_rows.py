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
from segue.inspector.views.wire_rows import BodyLine, rows_of
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
    assert [row.provider.lines[0].key for row in alone if row.provider] == ["4 assistant"]
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
