"""A conversation made shorter: what goes, what stays, and what happens when no summary is to be had."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from segue.chat.compaction import compact as compaction
from segue.chat.compaction.compact import CompactionResult, Strategy, budget_for, compact, needs_compaction
from segue.chat.compaction.strategies import DROPPED_NOTE, truncate, units_of, with_ledger_results
from segue.conversation.blocks import Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.document import decode_document, encode_document
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.errors import OverloadError, UsageError
from segue.transcript.adopt import rebuild
from segue.transcript.blocks.value_text import text_of
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep

requirement = pytest.mark.requirement


def count(conversation: Conversation) -> int:
    """A token for every four characters."""
    total = len(conversation.system)
    for message in conversation.messages:
        for block in message.blocks:
            total += 8
            if isinstance(block, (Text, Reasoning)):
                total += len(block.text)
            elif isinstance(block, ToolCall):
                total += len(block.name) + len(block.raw or text_of(block.arguments))
            elif isinstance(block, ToolResult):
                total += len(block.error or text_of(block.output)) + 1000 * len(block.media)
            elif isinstance(block, Media):
                total += 1000
    return -(-total // 4)


def history(turns: int, *, size: int = 2000) -> Conversation:
    """Turns of a question, two calls with long results, and an answer; the last turn is still open."""
    conversation = Conversation(system="Be brief.")
    for turn in range(turns):
        conversation = conversation.append(user(f"Question {turn}?"))
        wanted = (ToolCall("", "read", {"path": f"{turn}.{n}"}) for n in range(2))
        conversation = conversation.append(model(f"Looking {turn}.", *wanted))
        calls = conversation.messages[-1].calls
        results = (ToolResult(call.id, "read", f"<{call.id}> " + "x" * size) for call in calls)
        conversation = conversation.append(tool(*results))
        if turn < turns - 1:
            conversation = conversation.append(model(f"Answer {turn}."))
    return conversation


def shorten(
    conversation: Conversation,
    strategy: Strategy,
    budget: int,
    *,
    ledger: Ledger | None = None,
    summarise: Callable[[Conversation], Awaitable[str]] | None = None,
    window: int | None = None,
    exactly: bool = False,
) -> CompactionResult | None:
    return asyncio.run(
        compact(
            conversation,
            ledger,
            strategy=strategy,
            budget=budget,
            count=count,
            summarisers=[] if summarise is None else [compaction.Summariser(summarise, window)],
            exactly=exactly,
        )
    )


class Summariser:
    """Remembers what it was asked."""

    def __init__(self, answer: str | BaseException) -> None:
        self.answer = answer
        self.asked: list[Conversation] = []

    async def __call__(self, conversation: Conversation) -> str:
        self.asked.append(conversation)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def outputs(conversation: Conversation, ledger: Ledger | None = None) -> dict[str, str]:
    transcript = render(conversation, ledger, Rules())
    return {
        call.call_id: call.completion.text
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for call in step.calls
    }


def test_compaction_is_needed_from_a_share_of_the_window_on() -> None:
    assert not needs_compaction(850, 1000)
    assert needs_compaction(851, 1000)
    assert needs_compaction(700, 1000, 200)
    assert not needs_compaction(680, 1000, 200)
    assert not needs_compaction(10**9, None)
    assert not needs_compaction(400, 1000, 5000)
    assert budget_for(1000) == 500
    assert budget_for(1000, 200) == 400


def test_a_call_and_its_results_are_one_unit_and_all_else_stands_alone() -> None:
    conversation = history(2)
    assert units_of(conversation.messages) == [
        range(1),
        range(1, 3),
        range(3, 4),
        range(4, 5),
        range(5, 7),
    ]


def test_truncation_leaves_out_the_oldest_and_says_so() -> None:
    conversation = history(6)
    done = shorten(conversation, "truncate", 3000)
    assert done is not None
    assert done.fits
    assert done.strategy == "truncate"
    assert (done.tokens_before, done.tokens_after) == (count(conversation), count(done.conversation))
    assert done.conversation.messages[0].text == DROPPED_NOTE
    assert done.conversation.messages[0].instruction
    kept = done.conversation.messages[1:]
    assert kept == conversation.messages[-len(kept) :]
    assert done.dropped == len(conversation.messages) - len(kept)
    assert (done.conversation.system, done.conversation.minted) == (conversation.system, conversation.minted)


def test_middle_out_keeps_both_ends() -> None:
    conversation = Conversation(system="Be brief.").append(user("The plan."), model("Noted."))
    conversation = conversation.append(*history(6).messages)
    done = shorten(conversation, "middle_out", 3000)
    assert done is not None
    assert done.fits
    assert done.strategy == "middle_out"
    assert done.conversation.messages[:2] == conversation.messages[:2]
    assert done.conversation.messages[-1] == conversation.messages[-1]
    assert sum(message.text == DROPPED_NOTE for message in done.conversation.messages) == 1


def test_a_summary_stands_for_what_was_left_out() -> None:
    conversation = history(6)
    summariser = Summariser("  They read files.  ")
    done = shorten(conversation, "summarise", 4000, summarise=summariser)
    assert done is not None
    assert done.fits
    assert done.strategy == "summarise"
    assert done.problem == ""
    first = done.conversation.messages[0]
    assert first.text.endswith("They read files.")
    assert first.instruction
    assert done.conversation.messages[-1] == conversation.messages[-1]


def test_the_summariser_gets_plain_text_without_calls_and_ends_with_the_request() -> None:
    conversation = Conversation().append(
        user("Look.", Media("image", "image/png", data="aGVsbG8=", name="cat.png")),
        model(Reasoning("SECRET THOUGHT"), ToolCall("", "read", {"path": "a"})),
        tool(ToolResult("c0", "read", error="It is not there.")),
    )
    conversation = conversation.append(*history(6).messages)
    summariser = Summariser("Done.")
    assert shorten(conversation, "summarise", 4000, summarise=summariser) is not None
    (asked,) = summariser.asked
    assert [message.speaker for message in asked.messages] == ["user"]
    assert all(type(block) is Text for message in asked.messages for block in message.blocks)
    told = asked.messages[0].text
    for words in ("cat.png", 'called read with {"path":"a"}', "failed: It is not there.", "Question 0?"):
        assert words in told
    assert "SECRET THOUGHT" not in told
    assert told.endswith("Write only the summary.")


@pytest.mark.parametrize("window", [600, 1000, 3000])
def test_the_request_for_a_summary_fits_the_window_of_who_writes_it(window: int) -> None:
    summariser = Summariser("Done.")
    assert shorten(history(12), "summarise", 6000, summarise=summariser, window=window) is not None
    assert count(summariser.asked[0]) <= window * 0.75
    assert "Question 0?" in summariser.asked[0].messages[0].text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        (OverloadError("It is overloaded."), "It is overloaded"),
        (RuntimeError("unforeseen"), "unforeseen"),
        ("long " * 10_000, "too long"),
    ],
)
@pytest.mark.parametrize("strategy", ["summarise", "middle_out"])
def test_without_a_usable_summary_the_history_is_truncated(
    answer: str | Exception, problem: str, strategy: Strategy
) -> None:
    conversation = history(6)
    done = shorten(conversation, strategy, 3000, summarise=Summariser(answer))
    assert done is not None
    assert done.fits
    assert done.strategy == "truncate"
    assert problem in done.problem
    assert done.conversation == getattr(shorten(conversation, "truncate", 3000), "conversation", None)


@pytest.mark.parametrize("answer", ["", "long " * 10_000, OverloadError("It is overloaded.")])
def test_the_next_model_is_asked_for_the_summary_before_anything_is_cut(answer: str | Exception) -> None:
    first, second, third = Summariser(answer), Summariser("They read files."), Summariser("Not needed.")
    done = asyncio.run(
        compact(
            history(6),
            None,
            strategy="summarise",
            budget=3000,
            count=count,
            summarisers=[
                compaction.Summariser(one, name=f"m{n}") for n, one in enumerate((first, second, third))
            ],
        )
    )
    assert done is not None
    assert done.strategy == "summarise"
    assert "They read files." in done.conversation.messages[0].text
    assert "of m0" in done.problem
    assert (len(first.asked), len(second.asked), len(third.asked)) == (1, 1, 0)


@pytest.mark.parametrize("answer", ["", "long " * 10_000, OverloadError("It is overloaded.")])
@pytest.mark.parametrize("strategy", ["summarise", "middle_out"])
def test_a_summary_that_was_asked_for_by_name_is_never_replaced_by_a_cut(
    answer: str | Exception, strategy: Strategy
) -> None:
    with pytest.raises(UsageError) as caught:
        shorten(history(6), strategy, 3000, summarise=Summariser(answer), exactly=True)
    assert caught.value.code == "no_summary"
    assert "unchanged" in caught.value.hint


def test_results_elided_by_name_are_all_that_goes() -> None:
    conversation = history(40, size=600)
    done = shorten(conversation, "elide_results", 600, exactly=True)
    assert done is not None
    assert (done.strategy, done.dropped, done.fits) == ("elide_results", 0, False)


def test_of_a_new_result_that_fits_nowhere_as_much_is_kept_as_fits() -> None:
    conversation = Conversation().append(user("Read it."), model(ToolCall("", "read", {})))
    text = "".join(f"line {n}\n" for n in range(8000))
    conversation = conversation.append(tool(ToolResult("c0", "read", text)))
    done = shorten(conversation, "summarise", 2000)
    assert done is not None
    assert done.fits
    assert done.tokens_after > 1000
    shown = outputs(done.conversation)["c0"]
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 7998\nline 7999\n")
    assert "characters were left out" in shown


def test_a_cancelled_summary_is_not_taken_for_a_failed_one() -> None:
    with pytest.raises(asyncio.CancelledError):
        shorten(history(6), "summarise", 3000, summarise=Summariser(asyncio.CancelledError()))


def test_without_anybody_to_write_a_summary_the_history_is_truncated() -> None:
    done = shorten(history(6), "summarise", 3000)
    assert done is not None
    assert done.strategy == "truncate"
    assert done.problem != ""


def test_a_summary_of_a_summary_replaces_it() -> None:
    once = shorten(history(6), "summarise", 4000, summarise=Summariser("First."))
    assert once is not None
    longer = once.conversation.append(*history(4).messages)
    summariser = Summariser("Second.")
    twice = shorten(longer, "summarise", 4000, summarise=summariser)
    assert twice is not None
    assert "First." in summariser.asked[0].messages[0].text
    texts = [message.text for message in twice.conversation.messages]
    assert any("Second." in text for text in texts)
    assert not any("First." in text for text in texts)


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
def test_an_elided_result_stays_elided_in_renders_while_the_ledger_keeps_it_whole() -> None:
    conversation = history(4)
    ledger = rebuild(conversation)
    real = dict(ledger)
    done = shorten(conversation, "elide_results", 2000, ledger=ledger)
    assert done is not None
    assert done.fits
    assert done.strategy == "elide_results"
    assert done.dropped == 0
    assert dict(ledger) == real
    told = outputs(done.conversation, ledger)
    assert list(told) == list(outputs(conversation, ledger))
    assert "left out" in told["c0"]
    assert told["c0"].startswith("<c0> ")
    assert len(told["c0"]) < 400
    assert len(told["c7"]) > 2000
    assert outputs(done.conversation) == told


def test_an_elided_result_survives_the_document() -> None:
    done = shorten(history(4), "elide_results", 2000)
    assert done is not None
    assert decode_document(encode_document(done.conversation))[0] == done.conversation


def test_a_failure_and_a_picture_are_elided_as_what_they_are() -> None:
    conversation = Conversation().append(
        user("Go."),
        model(ToolCall("", "run", {}), ToolCall("", "look", {})),
        tool(
            ToolResult("c0", "run", error="boom " * 500),
            ToolResult("c1", "look", media=(Media("image", "image/png", data="aGVsbG8="),)),
        ),
        model("Done."),
    )
    done = shorten(conversation, "elide_results", 300)
    assert done is not None
    failed, seen = done.conversation.messages[2].blocks
    assert isinstance(failed, ToolResult)
    assert isinstance(seen, ToolResult)
    assert failed.error is not None
    assert failed.error.startswith("boom")
    assert failed.output is None
    assert (seen.error, seen.media) == (None, ())
    assert "1 media" in str(seen.output)


def test_eliding_spares_the_newest_results_while_others_can_go() -> None:
    conversation = history(4)
    done = shorten(conversation, "elide_results", 3000)
    assert done is not None
    assert done.conversation.messages[-1] == conversation.messages[-1]


def test_where_eliding_is_not_enough_the_oldest_go_too() -> None:
    done = shorten(history(40, size=600), "elide_results", 600)
    assert done is not None
    assert done.fits
    assert done.strategy == "truncate"
    assert done.dropped > 0


def test_in_one_long_turn_the_prompt_and_the_newest_results_stay() -> None:
    conversation = Conversation().append(user("Read them all."))
    for _ in range(20):
        conversation = conversation.append(model(ToolCall("", "read", {})))
        call = conversation.messages[-1].calls[0]
        conversation = conversation.append(tool(ToolResult(call.id, "read", "y" * 1000)))
    for strategy in ("truncate", "middle_out", "summarise"):
        done = shorten(conversation, strategy, 1500, summarise=Summariser("Read many."))
        assert done is not None
        assert done.fits
        assert done.conversation.messages[0] == conversation.messages[0]
        assert done.conversation.messages[-2:] == conversation.messages[-2:]


def test_truncation_never_drops_the_newest_exchange_whatever_fits() -> None:
    conversation = history(3)
    shortest = truncate(conversation, lambda _: False)
    # The last prompt, and the calls behind it with their results.
    assert shortest.messages[-3:] == conversation.messages[-3:]
    assert [message.text for message in shortest.messages[:-3]] == [DROPPED_NOTE]
    answered = conversation.append(model("Answer 2."))
    assert truncate(answered, lambda _: False).messages[-1] == answered.messages[-1]


def test_a_second_compaction_brings_no_elided_result_back() -> None:
    conversation = history(6)
    ledger = rebuild(conversation)
    once = shorten(conversation, "elide_results", 4500, ledger=ledger)
    assert once is not None
    results = [block for message in once.conversation.messages for block in message.blocks]
    assert any(isinstance(block, ToolResult) and block.elided for block in results)
    # The ledger has them whole, but that is not what models are sent any more.
    assert with_ledger_results(once.conversation, ledger) == once.conversation
    longer = once.conversation.append(model("Answer 5."), user("And?"), model("word " * 2000), user("So?"))
    twice = shorten(longer, "elide_results", 6500, ledger=ledger)
    assert twice is not None
    assert twice.tokens_before == count(longer)


def test_what_cannot_be_made_to_fit_is_told_honestly() -> None:
    conversation = Conversation().append(user("old " * 100), model("Yes."), user("long " * 1000))
    done = shorten(conversation, "truncate", 100)
    assert done is not None
    assert not done.fits
    assert done.tokens_after > 100
    assert done.conversation.messages[-1] == conversation.messages[-1]


def test_where_there_is_nothing_to_leave_out_nothing_is_done() -> None:
    assert shorten(Conversation().append(user("long " * 1000)), "truncate", 100) is None
    assert shorten(history(2), "truncate", 100_000) is None
    assert shorten(Conversation(), "truncate", 0) is None


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
def test_results_that_only_the_ledger_has_are_retold_and_elided_too() -> None:
    conversation = history(4)
    ledger = rebuild(conversation)
    lost = Conversation(
        tuple(message for message in conversation.messages if message.speaker != "tool"),
        conversation.system,
        conversation.minted,
    )
    summariser = Summariser("Done.")

    def counted(tried: Conversation) -> int:
        return sum(map(len, outputs(tried, ledger).values())) // 4 + count(tried)

    async def run(strategy: Strategy) -> CompactionResult | None:
        return await compact(
            lost,
            ledger,
            strategy=strategy,
            budget=3000,
            count=counted,
            summarisers=[compaction.Summariser(summariser)],
        )

    elided = asyncio.run(run("elide_results"))
    assert elided is not None
    assert elided.fits
    assert "left out" in outputs(elided.conversation, ledger)["c0"]
    assert asyncio.run(run("summarise")) is not None
    assert "<c0>" in summariser.asked[0].messages[0].text


def test_a_long_history_is_counted_a_few_times_only() -> None:
    conversation = history(400, size=100)
    counted = 0

    def counting(tried: Conversation) -> int:
        nonlocal counted
        counted += 1
        return count(tried)

    done = asyncio.run(
        compact(
            conversation,
            None,
            strategy="middle_out",
            budget=5000,
            count=counting,
            summarisers=[compaction.Summariser(Summariser("Done."))],
        )
    )
    assert done is not None
    assert counted < 60


def test_a_note_of_the_operator_is_not_taken_for_the_prompt() -> None:
    note = Message("user", (Text("Note."),), instruction=True)
    conversation = history(5).append(model("Now?"), user("The prompt."), note, model("z" * 2000), note)
    done = shorten(conversation, "truncate", 600)
    assert done is not None
    assert any(message.text == "The prompt." for message in done.conversation.messages)


def test_what_is_retold_is_what_the_ledger_says_and_not_a_placeholder_in_the_history() -> None:
    conversation = history(4)
    ledger = rebuild(conversation)
    placeholders = [
        tool(*(ToolResult(call.id, reason="interrupted") for call in before.calls))
        if message.speaker == "tool"
        else message
        for before, message in itertools.pairwise(conversation.messages)
    ]
    summariser = Summariser("Done.")
    wrong = Conversation((conversation.messages[0], *placeholders), conversation.system, conversation.minted)
    assert shorten(wrong, "summarise", 200, ledger=ledger, summarise=summariser) is not None
    told = summariser.asked[0].messages[0].text
    assert "<c0>" in told
    assert "interrupted" not in told


def test_calls_that_share_an_id_stay_together() -> None:
    def turn(call_id: str, output: str) -> tuple[Message, ...]:
        return (
            user("a"),
            model(ToolCall(call_id, "read")),
            tool(ToolResult(call_id, "read", output)),
        )

    assert units_of([*turn("x", "1"), *turn("x", "2"), user("b")]) == [range(1), range(1, 6), range(6, 7)]
    assert units_of([*turn("x", "1"), *turn("y", "2")]) == [range(1), range(1, 3), range(3, 4), range(4, 6)]
    assert units_of([*turn("", "1"), *turn("", "2")]) == [range(1), range(1, 3), range(3, 4), range(4, 6)]
