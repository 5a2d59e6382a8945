"""Several turns with providers that seal what they think: every seal comes back as it was, also after a crash.

The emulators verify their own signatures: one changed byte in a thought, or on the models that bind thoughts to what
came before, anywhere in front of it, is a refusal.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from segue.conversation.blocks import Reasoning, ToolResult
from segue.conversation.document import decode_document, encode_document
from segue.conversation.events import Reply, fold
from segue.conversation.message import Conversation, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import fit_rules
from segue.dialects.registry import DIALECTS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now
from segue.emulators.model.model_reply import Call, Say, Think
from segue.emulators.model.model_reply import Reply as Scripted
from segue.emulators.model.responder import ScriptedResponder
from segue.providers.models.cards import card_for_model
from segue.transcript.policy import Policy
from segue.transcript.render import render

HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "sk-x"}
WEATHER = ToolSpec("get_weather", "Weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
REPLIES = (
    Scripted(
        pieces=(
            Think("Two lookups."),
            Say("Both."),
            Call("get_weather", {"city": "Paris"}),
            Call("get_weather"),
        )
    ),
    Scripted(pieces=(Think("Enough."), Say("18 and 20."))),
    Scripted(pieces=(Think("Bye."), Say("You are welcome."))),
)
PLACES = {
    "anthropic": "/anthropic/v1/messages",
    "openai_responses": "/openai/v1/responses",
}


class Talk:
    """A conversation with one model of one emulator."""

    def __init__(self, dialect: str, model: str, *, stream: bool) -> None:
        self.dialect = DIALECTS[dialect]
        self.card = card_for_model(model, dialect)
        self.rules = fit_rules(self.dialect.rules.at(provider="p", endpoint="e", model=model), self.card)
        self.options = Options(model=model, stream=stream, effort="high", max_tokens=20_000)
        self.app = App(Emulator(responder=ScriptedResponder(list(REPLIES))))
        self.conversation = Conversation(system="Be brief.")

    def ask(self) -> Reply:
        policy = Policy(tool_names=(WEATHER.name,))
        transcript = render(self.conversation, None, self.rules, policy)
        assert transcript.repairs == ()
        request = self.dialect.encode_request(transcript, (WEATHER,), self.options, self.card)
        headers = {**HEADERS, "authorization": "Bearer sk-x"}
        answer = ask_now(self.app, "POST", PLACES[self.dialect.name], body=request.body, headers=headers)
        assert answer.status == 200, answer.body
        if self.options.stream:
            decoder = self.dialect.new_decoder()
            events = [
                event for portion in answer.portions for event in decoder.feed(portion)
            ] + decoder.close()
        else:
            events = self.dialect.decode_reply(answer.body)
        reply = fold(events, self.rules.target, made_under=transcript.fingerprint)
        assert reply.error is None
        self.conversation = self.conversation.append(reply.message)
        return reply


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("dialect", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-6"),
        ("anthropic", "claude-opus-4-7"),
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-5-5"),
        ("openai_responses", "gpt-5.6"),
        ("openai_responses", "gpt-6-astra"),
    ],
)
def test_thoughts_come_back_unchanged_turn_after_turn(dialect: str, model: str, stream: bool) -> None:
    talk = Talk(dialect, model, stream=stream)
    talk.conversation = talk.conversation.append(user("Weather in Paris and Rome?"))
    first = talk.ask()
    assert first.finish == "tool_calls"
    assert _sealed(first)
    calls = talk.conversation.messages[-1].calls
    results = tuple(ToolResult(call.id, call.name, "18", native_id=call.native_id) for call in calls)
    talk.conversation = talk.conversation.append(tool(*results))
    assert talk.ask().message.text == "18 and 20."
    # A session that was written down and read again goes on as if nothing had happened.
    talk.conversation = _through_a_file(talk.conversation).append(user("Thanks."))
    assert talk.ask().message.text == "You are welcome."


def test_the_emulator_would_notice_a_changed_thought() -> None:
    talk = Talk("anthropic", "claude-sonnet-4-5", stream=False)
    talk.conversation = talk.conversation.append(user("Weather?"))
    talk.ask()
    asked, said = talk.conversation.messages
    thought = said.blocks[0]
    assert type(thought) is Reasoning
    changed = structs.replace(said, blocks=(structs.replace(thought, text="Other."), *said.blocks[1:]))
    results = tuple(ToolResult(call.id, call.name, "18", native_id=call.native_id) for call in said.calls)
    talk.conversation = Conversation((asked, changed, tool(*results)), "Be brief.", 2)
    with pytest.raises(AssertionError, match="must remain as they were"):
        talk.ask()


def _sealed(reply: Reply) -> bool:
    return any(type(block) is Reasoning and block.seal is not None for block in reply.message.blocks)


def _through_a_file(conversation: Conversation) -> Conversation:
    return decode_document(encode_document(conversation))[0]
