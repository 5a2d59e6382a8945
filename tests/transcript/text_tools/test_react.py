"""Tool calls in plain text: how they are told to a model, and how its replies are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from laws.legality import complaints
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.events import (
    CallStarted,
    Event,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    Reply,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.conversation.usage import Usage
from segue.errors import TransportError
from segue.providers.adapter import ChatRequest
from segue.providers.requests.text_requests import as_text_request
from segue.transcript.adopt import rebuild
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript
from segue.transcript.text_tools.form import ParsedReply, offer_of
from segue.transcript.text_tools.history import PAIRING_ONLY
from segue.transcript.text_tools.react import (
    REACT,
    ReActScanner,
    correction,
    format_observation,
    format_tools,
)
from segue.transcript.text_tools.reader import TextToolReader
from strategies.examples import AT_LEAST_100
from strategies.histories import conversations, whole_conversations
from strategies.replies import arguments
from strategies.targets import Replay, for_every_target
from transcript.readers import parse_react

requirement = pytest.mark.requirement
ORIGIN = Origin("ollama", "local", "http://local.invalid", "tiny")
TINY = structs.replace(PAIRING_ONLY, target=ORIGIN)
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def as_react(request: ChatRequest) -> ChatRequest:
    return as_text_request(request, offer_of(request.tools, request.options), REACT)


def in_words(request: ChatRequest, rules: Rules = TINY) -> Transcript:
    """The request as a target without tools gets it."""
    asked = as_react(request)
    assert asked.tools == ()
    return render(asked.conversation, asked.ledger, rules, asked.policy)


def texts_of(transcript: Transcript) -> list[str]:
    return [message.text for message in transcript.conversation().messages]


def read(
    text: str, *, reason: FinishReason = "stop", sizes: list[int] | None = None
) -> tuple[Reply, ParsedReply]:
    """A reply as the reader tells it, fed in portions of these sizes."""
    reader = TextToolReader(ReActScanner())
    events: list[Event] = []
    at = 0
    for size in [*(sizes or []), len(text)]:
        if at < len(text):
            events += reader.feed(TextDelta(0, text[at : at + size]))
            at += size
    events += reader.feed(Finished(reason))
    events += reader.close()
    return fold(events, ORIGIN), reader.parsed


# What models write


@requirement("Property 18")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_action_is_read_with_its_thought_and_input(newline: str) -> None:
    text = newline.join(("Thought: I must look.", "Action: read", 'Action Input: {"path": "a"}', ""))
    assert parse_react(text) == ParsedReply(
        thought="I must look.", action="read", action_input={"path": "a"}, raw_input='{"path": "a"}'
    )


@requirement("Property 18")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final Answer: 42", ParsedReply(final_answer="42")),
        (
            "Thought: Easy.\nFinal Answer: It is\n\n42.\n",
            ParsedReply(thought="Easy.", final_answer="It is\n\n42."),
        ),
        ("Just an answer.\nIn two lines.", ParsedReply(final_answer="Just an answer.\nIn two lines.")),
        ("", ParsedReply(final_answer="")),
        ("Final Answer:", ParsedReply(final_answer="")),
        (
            "Thought: First,\nthen more\n\nand more.\nAction: read\nAction Input: {}",
            ParsedReply(
                thought="First,\nthen more\n\nand more.", action="read", action_input={}, raw_input="{}"
            ),
        ),
        ("**Thought:** Bold.\n**Final Answer:** Yes.", ParsedReply(thought="Bold.", final_answer="Yes.")),
        ("**Thought**: *Odd* one.\nFinal answer: No.", ParsedReply(thought="*Odd* one.", final_answer="No.")),
        ("Thought: A\nThought: B\nFinal Answer: C", ParsedReply(thought="A\nB", final_answer="C")),
        ("Observation: the sky is blue.", ParsedReply(final_answer="Observation: the sky is blue.")),
        ("Final Answer: See\nAction: none", ParsedReply(final_answer="See\nAction: none")),
        ("Action: ls", ParsedReply(action="ls", action_input={})),
        ("Action: `ls`\nAction Input:\n", ParsedReply(action="ls", action_input={})),
        ("Action: ls\nAction: rm", ParsedReply(action="ls", action_input={})),
        ("Thought:\n\n  Hm.\nFinal Answer: Yes.", ParsedReply(thought="Hm.", final_answer="Yes.")),
        (
            'Action Input: {"a": 1}\nThought: Hm.\nAction: ls',
            ParsedReply(action="", action_input={"a": 1}, raw_input='{"a": 1}', problem="no_action_name"),
        ),
    ],
)
def test_replies_of_many_shapes_are_read(text: str, expected: ParsedReply) -> None:
    assert parse_react(text) == expected
    assert parse_react(text.replace("\n", "\r\n").replace("\r\n\r\n", "\n\n")).action == expected.action


@requirement("Property 18", "Property 19")
@pytest.mark.parametrize(
    "written",
    [
        '{"path": "a", "n": [1, 2]}',
        '{\n  "path": "a",\n  "n": [\n    1,\n    2\n  ]\n}',
        '```json\n{"path": "a", "n": [1, 2]}\n```',
        '```\n{"path": "a", "n": [1, 2]}\n```\n',
        '`{"path": "a", "n": [1, 2]}`',
        '\n{"path": "a", "n": [1, 2]}',
        '{"path": "a", "n": [1, 2]}\nObservation: I made this up.\nFinal Answer: also made up',
        '{"path": "a", "n": [1, 2]} Observation: I made this up.',
        '{"path": "a", "n": [1, 2]}\n\nThought: now I wait',
        '{"path": "a", "n": [1, 2]}\nAction: read\nAction Input: {"path": "second"}',
    ],
)
def test_an_input_is_read_however_it_is_laid_out(written: str) -> None:
    for newline in ("\n", "\r\n"):
        parsed = parse_react(f"Thought: t\nAction: read\nAction Input: {written}".replace("\n", newline))
        assert parsed.calls
        assert parsed.action == "read"
        assert parsed.action_input == {"path": "a", "n": [1, 2]}


@AT_LEAST_100
@requirement("Property 18", "Property 19", "Property 21")
@given(
    st.lists(st.text("abc .,*✓", min_size=1, max_size=12), max_size=3),
    st.sampled_from(("read", "get_weather", "a-b")),
    arguments,
    st.sampled_from((None, 2)),
    st.sampled_from(("\n", "\r\n")),
)
def test_what_is_written_in_the_format_is_read_back(
    thoughts: list[str], name: str, wanted: dict[str, Any], indent: int | None, newline: str
) -> None:
    thought = "\n".join(thoughts).strip()
    text = f"Thought: {thought}\nAction: {name}\nAction Input: {json.dumps(wanted, indent=indent)}"
    parsed = parse_react(text.replace("\n", newline))
    assert parsed.thought.replace("\r\n", "\n") == thought
    assert (parsed.action, parsed.action_input, parsed.problem) == (name, wanted, None)
    ended = parse_react(text + "\nFinal Answer: done")
    assert ended.final_answer == "done"
    assert not ended.calls


@requirement("Property 19", "Property 33")
@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ('{"path": ', "bad_json"),
        ("path = a", "bad_json"),
        ("{'path': 'a'}", "bad_json"),
        ('{"a": 1} and more', "bad_json"),
        ("[1, 2]", "not_an_object"),
        ('"a"', "not_an_object"),
        ("null", "not_an_object"),
        ("`null`", "not_an_object"),
        ("7", "not_an_object"),
    ],
)
def test_an_input_that_is_no_json_object_is_sent_back_with_a_request_to_correct_it(
    written: str, problem: str
) -> None:
    reply, parsed = read(f"Thought: t\nAction: read\nAction Input: {written}")
    assert parsed.problem == problem
    assert not parsed.calls
    assert parsed.raw_input in correction(parsed)
    assert "JSON" in correction(parsed)
    assert reply.message.calls == ()
    assert reply.finish == "stop"
    assert "Action: read" in reply.message.text
    assert parsed.raw_input in reply.message.text


@requirement("Property 33")
def test_other_faults_are_explained_too() -> None:
    assert parse_react("Thought: Hm.").problem == "nothing_to_do"
    assert "neither" in correction(parse_react("Thought: Hm."))
    assert parse_react('Action:\nAction Input: {"a": 1}').problem == "no_action_name"
    assert parse_react('Action Input: {"a": 1}').problem == "no_action_name"
    assert "name one tool" in correction(parse_react("Action:\n"))
    long = parse_react(f"Action: read\nAction Input: {'x' * 5000}")
    assert len(correction(long)) < 1000
    exact = parse_react(f"Action: read\nAction Input: {'x' * 500}")
    assert "…" in correction(long)
    assert "…" not in correction(exact)
    assert "cut off" in correction(ParsedReply(thought="Hm.", problem="cut_off"))


@AT_LEAST_100
@requirement("Property 19")
@given(st.text(max_size=30))
def test_only_json_objects_become_arguments(written: str) -> None:
    parsed = parse_react(f"Action: read\nAction Input: {written}")
    if parsed.action_input is not None and parsed.raw_input:
        assert json.loads(parsed.raw_input) == parsed.action_input


# The reply while it arrives


@requirement("Property 18")
def test_a_reply_becomes_thoughts_and_a_call_like_any_other() -> None:
    reply, parsed = read('Thought: I must\nlook.\nAction: read\nAction Input: {"path": "a"}\n')
    assert reply.message.blocks == (
        Reasoning("I must\nlook."),
        ToolCall("", "read", {"path": "a"}, '{"path": "a"}'),
    )
    assert reply.finish == "tool_calls"
    assert parsed.calls


def test_the_answer_is_passed_on_while_it_arrives() -> None:
    reader = TextToolReader(ReActScanner())
    assert reader.feed(TextDelta(0, "Thought: Ea")) == [ReasoningDelta(0, "Ea")]
    assert reader.feed(TextDelta(0, "sy.\nFinal An")) == [ReasoningDelta(0, "sy.")]
    assert reader.feed(TextDelta(0, "swer: It")) == [TextDelta(1, "It")]
    assert reader.feed(TextDelta(0, " is 42")) == [TextDelta(1, " is 42")]
    assert reader.feed(Finished("stop")) == [Finished("stop")]
    assert reader.close() == []


def test_an_answer_without_any_keyword_is_passed_on_while_it_arrives() -> None:
    reader = TextToolReader(ReActScanner())
    assert reader.feed(TextDelta(0, "Hello")) == [TextDelta(0, "Hello")]
    assert reader.feed(TextDelta(0, ", you.\nAct")) == [TextDelta(0, ", you.")]
    assert reader.feed(TextDelta(0, "ually")) == [TextDelta(0, "\nActually")]
    assert reader.close() == [Finished("stop")]


@requirement("Property 21")
@pytest.mark.parametrize(
    "text",
    [
        'Action: read\nAction Input: {"path": "a"}\nFinal Answer: It is done.',
        "Final Answer: It is done.",
        "Thought: t\nAction: read\nAction Input: no json\nThought: u\nFinal Answer: It is done.",
    ],
)
def test_a_final_answer_ends_the_turn_and_calls_nothing(text: str) -> None:
    reply, parsed = read(text)
    assert reply.message.calls == ()
    assert reply.message.text == "It is done."
    assert reply.finish == "stop"
    assert parsed.final_answer == "It is done."
    assert not parsed.calls
    assert parsed.problem is None, "nothing is asked to be corrected"


def test_a_reply_that_was_cut_off_calls_only_what_is_whole() -> None:
    whole, _ = read('Action: read\nAction Input: {"path": "a"}', reason="length")
    assert (whole.finish, len(whole.message.calls)) == ("tool_calls", 1)
    for text in ('Action: read\nAction Input: {"pa', "Action: read\nAction In", "Action: re"):
        half, parsed = read(text, reason="length")
        assert (half.finish, half.message.calls, parsed.problem) == ("length", (), "cut_off")
    cancelled, _ = read('Action: read\nAction Input: {"path": "a"}', reason="cancelled")
    assert (cancelled.finish, cancelled.message.calls) == ("cancelled", ())


PIECES = (
    "Thought: ",
    "**Thought:**",
    "Action: ",
    "Action:read",
    "Action Input: ",
    "Final Answer: ",
    "Observation: ",
    "Final ",
    "Act",
    "\n",
    "\r\n",
    " ",
    "read",
    '{"a": 1}',
    "```json\n",
    "```",
    "**",
    "> ",
    ":",
    "words ✓",
)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.lists(st.integers(1, 7), max_size=60))
def test_where_the_text_is_cut_makes_no_difference(text: str, sizes: list[int]) -> None:
    reply, parsed = read(text, sizes=sizes)
    assert read(text, sizes=[1] * len(text)) == (reply, parsed)
    assert read(text) == (reply, parsed)
    assert parsed == parse_react(text)
    assert (reply.finish == "tool_calls") == parsed.calls == bool(reply.message.calls)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_a_server_that_ignores_the_stop_makes_no_difference(text: str) -> None:
    acted = 'Thought: t\nAction: read\nAction Input: {"a": 1}'
    assert read(f"{acted}\nObservation: {text}") == read(acted)


def test_everything_else_of_a_reply_is_passed_on() -> None:
    reader = TextToolReader(ReActScanner())
    origin = Origin("x")
    events: list[Event] = []
    for event in (
        ReplyStarted("r1", "tiny"),
        ReasoningDelta(0, "Native thought."),
        Sealed(0, "seal"),
        TextDelta(1, "Final Answer: Yes."),
        Sealed(1, "other", "thought", "text"),
        CallStarted(2, "n1", "read"),
        UsageReported(Usage(input_tokens=3)),
        Finished("tool_calls", "tool_use"),
    ):
        events += reader.feed(event)
    reply = fold(events, origin)
    assert reply.message.blocks == (
        Reasoning("Native thought.", Seal(origin, "seal")),
        Text("Yes."),
        ToolCall("", "read", {}, native_id="n1"),
    )
    assert (reply.id, reply.usage, reply.finish) == ("r1", Usage(input_tokens=3), "tool_calls")


def test_a_failure_passes_and_calls_nothing() -> None:
    reader = TextToolReader(ReActScanner())
    events = reader.feed(TextDelta(0, "Thought: t\nAction: read\nAction Input: {}"))
    error = TransportError("It broke off.")
    events += reader.feed(Failed(error))
    events += reader.close()
    assert events == [ReasoningDelta(0, "t"), Failed(error)]


# What models are told


@AT_LEAST_100
@requirement("Property 17")
@given(
    st.lists(
        st.builds(
            ToolSpec,
            name=st.text("abc_", min_size=1, max_size=8),
            description=st.sampled_from(("", "Does a thing.")),
            parameters=st.none() | st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_instructions_name_every_tool_what_it_does_and_what_it_takes(tools: list[ToolSpec]) -> None:
    told = format_tools(tools)
    for spec in tools:
        line = f"- {spec.name}: {spec.description or 'No description'}\n  Parameters: "
        told_parameters = [part.split("\n")[0] for part in told.split(line)[1:]]
        assert (spec.parameters or {}) in [json.loads(held) for held in told_parameters]
    for word in ("Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:"):
        assert word in told


@AT_LEAST_100
@requirement("Property 20")
@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_an_observation_is_the_result_in_json(result: Any) -> None:
    told = format_observation(result)
    assert told.startswith("Observation: ")
    if "\\ufffd" not in json.dumps(result):
        assert json.loads(told.removeprefix("Observation: ")) == result


def conversation() -> Conversation:
    return Conversation(system="Be brief.").append(
        user("What is in a and b?"),
        model("Looking.", ToolCall("", "read", {"path": "a"}), ToolCall("", "read", {"path": "b"})),
        tool(
            ToolResult("c0", "read", {"text": "one"}),
            ToolResult("c1", "read", error="It is not there."),
        ),
        model("Only a has something."),
        user("Thanks."),
    )


def test_a_conversation_is_told_as_thoughts_actions_and_observations() -> None:
    request = ChatRequest(model="tiny", conversation=conversation(), tools=(READ,))
    told, written = as_react(request), in_words(request).conversation()
    assert [(message.speaker, message.text) for message in written.messages] == [
        ("user", "What is in a and b?"),
        ("model", 'Thought: Looking.\nAction: read\nAction Input: {"path":"a"}'),
        ("user", 'Observation: {"text":"one"}'),
        ("model", 'Action: read\nAction Input: {"path":"b"}'),
        ("user", 'Observation: {"error":"It is not there."}'),
        ("model", "Final Answer: Only a has something."),
        ("user", "Thanks."),
    ]
    assert told.conversation.system.startswith("Be brief.\n\n")
    assert format_tools([READ]) in told.conversation.system
    assert written.system == told.conversation.system
    assert told.tools == ()
    assert told.options.stop == ("\nObservation:",)


def test_a_tool_choice_is_told_in_words() -> None:
    def system(options: Options) -> tuple[str, Options]:
        request = ChatRequest(model="tiny", conversation=conversation(), tools=(READ,), options=options)
        told = as_react(request)
        return told.conversation.system, told.options

    assert "must use a tool" in system(Options(tool_choice="required"))[0]
    assert "must use the tool read" in system(Options(tool_choice=Named("read")))[0]
    silent, options = system(Options(tool_choice="none", stop=("END",)))
    assert (silent, options.stop) == ("Be brief.", ("END",))
    schema, options = system(Options(response_schema={"type": "object"}, parallel_calls=True))
    assert '{"type":"object"}' in schema
    assert (options.response_schema, options.parallel_calls) == (None, None)


def test_only_its_own_thoughts_are_told_to_a_model_and_only_if_the_policy_allows() -> None:
    own = Reasoning("OWN THOUGHT")
    foreign = Reasoning("FOREIGN THOUGHT")
    told = Conversation().append(
        user("Go."),
        model(foreign, ToolCall("", "read", {}), origin=Origin("other", "p", "e", "big")),
        tool(ToolResult("c0", "read", "x")),
        model(own, ToolCall("", "read", {}), origin=ORIGIN),
        tool(ToolResult("c1", "read", "y")),
    )

    def texts(policy: Policy) -> str:
        request = ChatRequest(model="tiny", conversation=told, tools=(READ,), policy=policy)
        return "\n".join(texts_of(in_words(request)))

    assert "Thought: OWN THOUGHT" in texts(Policy())
    assert "FOREIGN" not in texts(Policy())
    assert "THOUGHT" not in texts(Policy(include_reasoning=False))
    assert "THOUGHT" not in texts(Policy(strip_reasoning="all"))


def test_pictures_in_results_stay_beside_the_observation() -> None:
    cat = Media("image", "image/png", data="aGVsbG8=")
    told = Conversation().append(
        user("Look."), model(ToolCall("", "get.weather", {})), tool(ToolResult("c0", media=(cat,)))
    )
    request = ChatRequest(model="tiny", conversation=told, tools=(ToolSpec("get.weather"),))
    messages = in_words(request).conversation().messages
    assert "Action: get.weather" in messages[1].text
    assert cat in messages[2].blocks


def test_what_the_ledger_knows_is_told_also_where_the_history_lost_it() -> None:
    whole = conversation()
    ledger = rebuild(whole)
    lost = Conversation(tuple(message for message in whole.messages if message.speaker != "tool"))
    for tools in ((READ,), ()):
        request = ChatRequest(model="tiny", conversation=lost, ledger=ledger, tools=tools)
        assert any('{"text":"one"}' in text for text in texts_of(in_words(request)))


@given(data=st.data())
@for_every_target
def test_any_history_can_be_told_in_text_to_any_target(rules: Rules, data: Replay) -> None:
    history = data.draw(conversations(rules))
    transcript = in_words(ChatRequest(model="model-1", conversation=history, tools=(READ,)), rules)
    assert list(complaints(transcript, rules)) == []
    assert not any(step.calls for step in transcript.steps if isinstance(step, ModelStep))


@given(data=st.data())
@for_every_target
def test_a_session_goes_from_native_calls_to_text_and_back(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations(rules.target))
    request = ChatRequest(model="tiny", conversation=told.conversation, tools=(READ,))
    before = render(told.conversation, None, rules)
    retold = texts_of(in_words(request))
    assert render(request.conversation, None, rules).steps == before.steps
    for output in told.outputs.values():
        assert any(output in text for text in retold)

    reply, parsed = read('Thought: Once more.\nAction: read\nAction Input: {"n": 9}')
    assert parsed.calls
    grown = told.conversation.append(user("Again."), reply.message)
    call = grown.messages[-1].calls[0]
    grown = grown.append(tool(ToolResult(call.id, "read", "found")))
    transcript = render(grown, None, rules)
    assert list(complaints(transcript, rules)) == []
    last = next(step for step in reversed(transcript.steps) if isinstance(step, ModelStep) and step.calls)
    assert [(held.name, held.arguments, held.completion.text) for held in last.calls] == [
        ("read", '{"n": 9}', "found")
    ]


@given(whole_conversations())
def test_what_was_told_before_is_told_the_same_when_the_conversation_has_grown(told: Any) -> None:
    messages = told.conversation.messages
    request = ChatRequest(model="tiny", conversation=told.conversation, tools=(READ,))
    whole = in_words(request).steps
    for count in range(1, len(messages)):
        if messages[count - 1].calls:
            continue
        part = in_words(structs.replace(request, conversation=Conversation(messages[:count]))).steps
        assert whole[: len(part)] == part
