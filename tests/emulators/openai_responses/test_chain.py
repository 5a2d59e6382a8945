from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_responses.requests import USER, body, call, judge, output, reasoning, said
from segue.emulators.openai_responses import chain
from segue.emulators.openai_responses.checks import complaints
from segue.emulators.rules import Context, enforced


@pytest.mark.rule("RESP-10")
def test_every_call_has_its_output() -> None:
    judge.refuses(
        body(USER, call("call_a1"), call("call_a2"), output("call_a2")),
        "RESP-10",
        "No tool output found for function call call_a1.",
        param="input",
    )


@pytest.mark.rule("RESP-11")
def test_every_output_has_its_call() -> None:
    judge.refuses(
        body(USER, output("call_X")),
        "RESP-11",
        "No tool call found for function call output with call_id call_X.",
        param="input",
    )


@pytest.mark.rule("RESP-12")
def test_outputs_need_not_stand_beside_their_calls_but_after_them() -> None:
    judge.accepts(body(USER, call("a"), USER, call("b"), output("b"), output("a")))
    judge.refuses(
        body(USER, output(), call()),
        "RESP-12",
        "No tool call found for function call output with call_id call_a1.",
        strict=True,
    )


@pytest.mark.rule("RESP-13")
def test_a_second_output_is_refused_only_when_asked_for() -> None:
    request = body(USER, call(), output(), output())
    judge.accepts(request)
    asked = Context(extra_rules=frozenset({"RESP-13"}))
    assert "RESP-13" in [refusal.rule for refusal in complaints(request, asked) if enforced(refusal, asked)]


@pytest.mark.rule("RESP-23")
def test_ids_may_be_left_out() -> None:
    judge.accepts(body(USER, reasoning(), said(), call(), output()))


@pytest.mark.rule("RESP-24")
def test_an_id_appears_once() -> None:
    judge.refuses(
        body(USER, said(id="msg_4"), USER, said(id="msg_4")),
        "RESP-24",
        "Duplicate item found with id msg_4. Remove duplicate items from your input and try again.",
        param="input",
    )


@pytest.mark.rule("RESP-45")
@pytest.mark.parametrize(
    "bare",
    [{"type": "item_reference", "id": "rs_9"}, {"type": "reasoning", "id": "rs_9", "summary": []}],
)
def test_without_storage_there_is_nothing_behind_a_bare_id(bare: dict[str, Any]) -> None:
    judge.refuses(
        body(USER, bare, said(), store=False),
        "RESP-45",
        "Item with id 'rs_9' not found. Items are not persisted when `store` is set to false. Try again with `store` "
        "set to true, or remove this item from your input.",
        status=404,
        param="input",
    )


@pytest.mark.rule("RESP-46")
@pytest.mark.parametrize(
    "sealed", ["gAAAAABforeign", chain.issue("x", Context(account="other")), "gAAA\u20ac"]
)
def test_a_foreign_seal_is_refused(sealed: str) -> None:
    judge.refuses(
        body(USER, reasoning(id="rs_01", encrypted_content=sealed), said()),
        "RESP-46",
        "The encrypted content for item rs_01 could not be verified. Reason: Encrypted content could not be decrypted "
        "or parsed.",
        code="invalid_encrypted_content",
    )


@pytest.mark.rule("RESP-46")
def test_a_seal_that_was_altered_or_cut_is_refused() -> None:
    sealed = chain.issue("x", Context())
    for wrong in (sealed[:-4], sealed[:20] + "A" + sealed[21:], sealed + "AAAA"):
        assert not chain.opens(wrong, Context())
    assert chain.opens(sealed, Context())


@pytest.mark.rule("RESP-47")
def test_reasoning_may_be_dropped() -> None:
    judge.accepts(body(USER, said(), call(), output()))


@pytest.mark.rule("RESP-50")
def test_a_chain_comes_from_one_place() -> None:
    request = body(USER, previous_response_id="resp_1", conversation="conv_1")
    assert [refusal.rule for refusal in complaints(request, judge.context(body()))] == ["RESP-50"]


@pytest.mark.rule("RESP-10", "RESP-11")
def test_a_call_is_answered_by_the_output_of_its_own_kind() -> None:
    shell = {"type": "shell_call", "call_id": "call_s", "action": {"commands": ["ls"]}}
    chunk = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    wrote = {"type": "shell_call_output", "call_id": "call_s", "output": [chunk]}
    judge.accepts(body(USER, shell, wrote))
    judge.refuses(
        body(USER, shell),
        "RESP-10",
        "No tool output found for shell call call_s.",
        param="input",
        strict=True,
    )
    judge.refuses(
        body(USER, wrote),
        "RESP-11",
        "No tool call found for shell call output with call_id call_s.",
        param="input",
    )
    context = judge.context(body(USER))
    found = {refusal.rule for refusal in complaints(body(USER, shell, output("call_s")), context)}
    assert found == {"RESP-10", "RESP-11"}
