"""Whole turns between us and the strict stand-ins of the Chat servers, in one process, whole and streamed."""

from __future__ import annotations

import pytest

from segue.conversation.blocks import Origin, Reasoning, ToolResult
from segue.conversation.events import Event, Reply, fold
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import fit_rules
from segue.dialects.registry import DIALECTS
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault, FaultKind
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model import model_reply
from segue.emulators.model.responder import ScriptedResponder
from segue.errors import OverloadError, ProtocolError, ProviderError, RateLimitError
from segue.providers.models.cards import card_for_model
from segue.transcript.policy import Policy
from segue.transcript.render import render

SERVERS = {
    "openai_chat": ("/openai/v1/chat/completions", "gpt-4.1"),
    "kimi": ("/kimi/v1/chat/completions", "kimi-k2.6"),
    "deepseek": ("/deepseek/chat/completions", "deepseek-v4-flash"),
    "ollama_v1": ("/ollama/v1/chat/completions", "qwen3:8b"),
}
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"n": {"type": "integer"}}})
THINKS = frozenset({"kimi", "deepseek", "ollama_v1"})


def exchange(app: App, name: str, conversation: Conversation, *, stream: bool) -> EmulatorResponse:
    url, model = SERVERS[name]
    dialect, card = DIALECTS[name], card_for_model(model, name)
    rules = fit_rules(dialect.rules.at(model=model), card)
    transcript = render(conversation, None, rules, Policy(tool_names=(READ.name,)))
    body = dialect.encode_request(transcript, (READ,), Options(model=model, stream=stream), card).body
    return ask_now(app, "POST", url, body=body)


def heard(name: str, answer: EmulatorResponse, *, stream: bool) -> Reply:
    dialect = DIALECTS[name]
    if answer.status != 200:
        raise dialect.decode_error(answer.status, answer.headers, answer.body)
    events: list[Event] = []
    if stream:
        decoder = dialect.new_decoder()
        for portion in answer.portions:
            events += decoder.feed(portion)
        events += decoder.close()
    else:
        events = dialect.decode_reply(answer.body)
    return fold(events, Origin(name, model=SERVERS[name][1]))


@pytest.mark.requirement("Scenario: Chat Completion with Tools")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", SERVERS)
def test_a_turn_with_parallel_calls_is_accepted_to_its_end(name: str, stream: bool) -> None:
    calls = (model_reply.Call("read", {"n": 1}), model_reply.Call("read", {"n": 2}))
    thought = (model_reply.Think("Two reads."),) if name in THINKS else ()
    script = [
        model_reply.Reply(pieces=(*thought, model_reply.Say("Looking."), *calls)),
        model_reply.Reply(pieces=(*thought, model_reply.Say("Done."))),
    ]
    app = App(Emulator(strict=True, responder=ScriptedResponder(script)))
    conversation = Conversation((), "Be brief.").append(user("Read both."))
    first = heard(name, exchange(app, name, conversation, stream=stream), stream=stream)
    assert (first.message.text, first.finish) == ("Looking.", "tool_calls")
    assert [call.arguments for call in first.message.calls] == [{"n": 1}, {"n": 2}]
    assert any(isinstance(block, Reasoning) for block in first.message.blocks) == bool(thought)
    assert first.usage.input_tokens
    conversation = conversation.append(first.message)
    results = tuple(
        ToolResult(call.id, call.name, f"file {call.arguments['n']}")
        for call in conversation.messages[-1].calls
    )
    conversation = conversation.append(Message("tool", results))
    last = heard(name, exchange(app, name, conversation, stream=stream), stream=stream)
    assert (last.message.text, last.finish) == ("Done.", "stop")
    conversation = conversation.append(last.message, user("Thanks."))
    assert exchange(app, name, conversation, stream=stream).status == 200


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("error_mid_stream", ProviderError),
        ("cut", ProtocolError),
        ("content_type", ProtocolError),
        ("empty", ProtocolError),
    ],
)
@pytest.mark.parametrize("name", SERVERS)
def test_a_stream_that_goes_wrong_is_a_failure(name: str, fault: FaultKind, kind: type[Exception]) -> None:
    app = App(
        Emulator(
            responder=ScriptedResponder(
                [model_reply.Reply(pieces=(model_reply.Say("Hello, hello, hello."),))]
            )
        )
    )
    app.emulator.faults.append(Fault(kind=fault, at_byte=300))
    answer = exchange(app, name, Conversation().append(user("hi")), stream=True)
    if answer.status != 200:
        assert DIALECTS[name].decode_error(answer.status, {}, answer.body).remedy
        return
    error = heard(name, answer, stream=True).error
    # Ollama swallows its own errors in the middle of a stream (OLL-37).
    assert isinstance(error, (kind, ProtocolError) if name == "ollama_v1" else kind)


@pytest.mark.parametrize(
    ("status", "kind"), [(429, RateLimitError), (500, OverloadError), (503, OverloadError)]
)
@pytest.mark.parametrize("name", SERVERS)
def test_a_refusal_is_understood(name: str, status: int, kind: type[ProviderError]) -> None:
    app = App(Emulator())
    app.emulator.faults.append(Fault(status=status, retry_after=2))
    answer = exchange(app, name, Conversation().append(user("hi")), stream=False)
    error = DIALECTS[name].decode_error(answer.status, answer.headers, answer.body)
    assert type(error) is kind
    assert error.status == status
