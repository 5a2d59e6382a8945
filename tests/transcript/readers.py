"""Reading a transcript in tests."""

from __future__ import annotations

import pytest

from segue.conversation.message import Conversation, Message
from segue.transcript.policy import DEFAULT, Policy
from segue.transcript.render import render
from segue.transcript.repairs import Kind
from segue.transcript.rules import Rules
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript
from segue.transcript.text_tools.form import ParsedReply
from segue.transcript.text_tools.react import ReActScanner
from strategies.targets import TARGETS

every_target = pytest.mark.parametrize("rules", list(TARGETS.values()), ids=list(TARGETS))


def said(*messages: Message, rules: Rules, policy: Policy = DEFAULT, system: str = "") -> Transcript:
    """The messages rendered without a ledger."""
    return render(Conversation(messages, system), None, rules, policy)


def calls_of(transcript: Transcript) -> list[AnsweredCall]:
    return [call for step in transcript.steps if isinstance(step, ModelStep) for call in step.calls]


def batches_of(transcript: Transcript) -> list[list[str]]:
    """The canonical ids of each step that has calls."""
    return [
        [call.call_id for call in step.calls]
        for step in transcript.steps
        if isinstance(step, ModelStep) and step.calls
    ]


def completions_of(transcript: Transcript) -> dict[str, str]:
    return {call.call_id: call.completion.text for call in calls_of(transcript)}


def kinds_of(transcript: Transcript) -> list[Kind]:
    return [repair.kind for repair in transcript.repairs]


def parse_react(text: str) -> ParsedReply:
    scanner = ReActScanner()
    scanner.feed(text)
    scanner.close()
    return scanner.parsed()
