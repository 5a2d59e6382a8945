"""Every call has one completion: the ledger's, a success, a failure, or a neutral note."""

from __future__ import annotations

from typing import get_args

import pytest

from segue.conversation.blocks import Media, Reason, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.errors import TranscriptError
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.closure import ANOTHER
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import Transcript
from strategies.targets import TARGETS
from transcript.readers import calls_of, completions_of, every_target, kinds_of

requirement = pytest.mark.requirement
RULES = TARGETS["openai_chat"]
CALL = ToolCall("c0", "read", {"path": "a"}, '{"path": "a"}')
REAL = ToolResult("c0", "read", "content")
FAILURE = ToolResult("c0", "read", error="no such file")
PLACEHOLDER = ToolResult("c0", "read", reason="interrupted")
IMAGE = Media("image", "image/png", "aGVsbG8=")


def closed(
    *results: ToolResult, known: ToolResult | None = None, ledger: bool = False, policy: Policy | None = None
) -> Transcript:
    messages: list[Message] = [user("a"), model(CALL), *(tool(result) for result in results), user("b")]
    book = Ledger([Interaction(CALL, known)]) if ledger or known else None
    return render(Conversation(tuple(messages)), book, RULES, policy or Policy())


@requirement("REQ-915-008", "REQ-915-009", "REQ-915-012")
@pytest.mark.parametrize(
    ("results", "known", "text"),
    [
        ((REAL,), None, "content"),
        ((REAL, PLACEHOLDER), None, "content"),
        ((PLACEHOLDER, REAL), None, "content"),
        ((FAILURE, REAL), None, "content"),
        ((REAL, FAILURE), None, "content"),
        ((FAILURE, PLACEHOLDER), None, "no such file"),
        ((REAL, ToolResult("c0", "read", "other")), None, f"content\n\n{ANOTHER}\nother"),
        ((FAILURE, ToolResult("c0", "read", error="other")), None, f"no such file\n\n{ANOTHER}\nother"),
        ((ToolResult("c0", "read", "tent"), REAL), None, "content"),
        ((ToolResult("c0", "read", complete=True), REAL), None, "content"),
        ((REAL, ToolResult("c0", "read", " ")), None, "content"),
        ((ToolResult("c0", "read", "[Tool execution was interrupted]"), REAL), None, "content"),
        ((ToolResult("c0", "read", error="No result provided"), FAILURE), None, "no such file"),
        ((ToolResult("c0", "read", WORDING["interrupted"]), FAILURE), None, "no such file"),
        (
            (ToolResult("c0", "read", "[Tool execution was interrupted]"),),
            None,
            "[Tool execution was interrupted]",
        ),
        ((), REAL, "content"),
        ((PLACEHOLDER,), REAL, "content"),
        ((ToolResult("c0", "read", "other"),), REAL, "content"),
        ((REAL,), FAILURE, "no such file"),
        ((REAL,), PLACEHOLDER, "content"),
        ((FAILURE,), PLACEHOLDER, "no such file"),
        ((ToolResult("c0", "read"),), None, WORDING["interrupted"]),
    ],
)
def test_the_ledger_comes_first_then_a_success_then_a_failure(
    results: tuple[ToolResult, ...], known: ToolResult | None, text: str
) -> None:
    transcript = closed(*results, known=known)
    (call,) = calls_of(transcript)
    assert call.completion.text == text


@requirement("REQ-915-009", "REQ-915-039")
@pytest.mark.parametrize(
    ("results", "decision"),
    [
        ((PLACEHOLDER, REAL), "a real result stands instead of a placeholder"),
        ((FAILURE, REAL), "a success stands instead of a failure"),
        ((REAL, REAL), "the first result stands"),
        ((REAL, ToolResult("c0", "read", "tent")), "another result holds it"),
        ((ToolResult("c0", "read", ""), REAL), "a real result stands instead of a placeholder"),
    ],
)
def test_what_was_decided_between_results_is_told(results: tuple[ToolResult, ...], decision: str) -> None:
    (repair,) = closed(*results).repairs
    assert (repair.kind, repair.decision, repair.call_ids) == ("result_superseded", decision, ("c0",))
    assert repair.emitted_call_ids == repair.emitted_result_ids == ("call_c0",)


@requirement("REQ-915-009", "REQ-915-012", "REQ-915-039")
def test_results_that_differ_are_sent_as_one_and_that_is_reported() -> None:
    shown = ToolResult("c0", "read", "other", media=(IMAGE,))
    transcript = closed(REAL, shown, REAL, ToolResult("c0", "read", "third"))
    (call,) = calls_of(transcript)
    assert call.completion.text.split("\n")[::3] == ["content", "other", "third"]
    assert kinds_of(transcript).count("results_joined") == 2
    joined = next(repair for repair in transcript.repairs if repair.kind == "results_joined")
    assert (joined.path, joined.call_ids, joined.lossy) == ("messages[3].blocks[0]", ("c0",), False)


@requirement("REQ-915-046")
def test_a_result_only_the_ledger_has_is_recovered() -> None:
    transcript = closed(known=REAL)
    assert kinds_of(transcript) == ["result_recovered"]
    assert kinds_of(closed(REAL, known=REAL)) == []
    assert kinds_of(closed(ToolResult("c0", "read", "other"), known=REAL)) == ["result_superseded"]


def test_fields_of_a_results_own_wire_stay_where_the_ledger_holds_the_same_result() -> None:
    extra = Extra(RULES.target.dialect, fields={"cached": True})
    marked = ToolResult("c0", "read", "content", extra=extra)
    # A second result, so that the whole history is composed.
    for results in ((marked,), (marked, PLACEHOLDER)):
        (call,) = calls_of(closed(*results, known=REAL))
        assert call.completion.extra == extra


@requirement("REQ-915-046")
def test_what_the_ledger_shows_is_shown_though_the_words_are_the_same() -> None:
    shown = ToolResult("c0", "read", "content", media=(IMAGE,))
    first = ToolCall("z", "read", raw="{}")
    conversation = Conversation(
        (user("a"), model(first), tool(ToolResult("z", "read", "1")), model(CALL), tool(REAL), user("b"))
    )
    transcript = render(conversation, Ledger([Interaction(CALL, shown)]), TARGETS["anthropic"])
    assert calls_of(transcript)[1].completion.media == (IMAGE,)


@requirement("REQ-915-011")
@pytest.mark.parametrize("reason", get_args(Reason))
def test_a_synthetic_completion_says_why_and_warns(reason: Reason) -> None:
    transcript = closed(known=ToolResult("c0", "read", reason=reason))
    (call,) = calls_of(transcript)
    assert (call.completion.text, call.completion.reason) == (WORDING[reason], reason)
    assert call.completion.is_error
    (repair,) = transcript.repairs
    assert (repair.kind, repair.reason, repair.fault) == ("call_closed", reason, "pairing")
    assert ("side effects" in call.completion.text) == (reason != "denied")
    assert ("the user" in call.completion.text) == (reason == "cancelled_by_user")


@requirement("REQ-915-011")
def test_a_placeholder_in_the_history_keeps_its_reason_and_is_no_repair() -> None:
    transcript = closed(ToolResult("c0", "read", reason="timed_out"))
    assert calls_of(transcript)[0].completion.text == WORDING["timed_out"]
    assert transcript.repairs == ()
    worded = closed(ToolResult("c0", "read", "stopped half way", reason="timed_out"))
    assert calls_of(worded)[0].completion.text == "stopped half way"


def test_a_call_the_ledger_says_is_running_is_closed_or_refused_as_the_policy_wants() -> None:
    assert completions_of(closed(ledger=True)) == {"c0": WORDING["interrupted"]}
    refuse = Policy(open_calls="refuse")
    with pytest.raises(TranscriptError) as refused:
        closed(ledger=True, policy=refuse)
    error = refused.value
    assert (error.code, error.path) == ("call_running", "messages[1].blocks[0]")
    assert '"read"' in error.message
    assert "scheduler" in error.hint
    assert completions_of(closed(REAL, ledger=True, policy=refuse)) == {"c0": "content"}
    assert completions_of(closed(policy=refuse)) == {"c0": WORDING["interrupted"]}
    assert completions_of(closed(known=PLACEHOLDER, policy=refuse)) == {"c0": WORDING["interrupted"]}


@requirement("REQ-915-008", "REQ-915-012")
@every_target
def test_a_real_result_that_comes_after_a_cancel_is_told(rules: Rules) -> None:
    ledger = Ledger([Interaction(CALL)])
    cancelled = ledger.cancel("c0", "cancelled_by_user").result
    assert cancelled is not None
    ledger.settle(REAL)
    history = (user("a"), model(CALL), tool(cancelled), user("b"), tool(REAL), user("c"))
    assert completions_of(render(Conversation(history), ledger, rules)) == {"c0": "content"}


@requirement("REQ-915-026", "REQ-915-027")
@every_target
def test_a_call_that_was_compacted_away_is_taken_from_the_ledger_with_its_arguments(rules: Rules) -> None:
    conversation = Conversation((user("summary"), tool(REAL), user("b")))
    transcript = render(conversation, Ledger([Interaction(CALL, REAL)]), rules)
    (call,) = calls_of(transcript)
    assert (call.arguments, call.completion.text) == ('{"path": "a"}', "content")
    assert "call_recovered" in kinds_of(transcript)


def test_an_entry_of_the_ledger_speaks_for_one_call_only() -> None:
    conversation = Conversation((user("a"), model(CALL), user("b"), model(CALL), user("c")))
    transcript = render(conversation, Ledger([Interaction(CALL, REAL)]), RULES)
    assert [call.completion.reason for call in calls_of(transcript)] == ["interrupted"] * 2
    lost = Conversation(
        (user("a"), tool(REAL), user("b"), tool(ToolResult("c0", "read", "other")), user("c"))
    )
    transcript = render(lost, Ledger([Interaction(CALL, REAL)]), RULES)
    assert [call.completion.text for call in calls_of(transcript)] == ["content", "other"]


def test_a_book_may_be_any_mapping() -> None:
    conversation = Conversation((user("a"), model(CALL), user("b")))
    book = {"c0": Interaction(CALL, REAL)}
    first = render(conversation, book, RULES)
    assert completions_of(first) == {"c0": "content"}
    again = render(conversation.append(user("c")), book, RULES, previous=first)
    assert completions_of(again) == {"c0": "content"}
