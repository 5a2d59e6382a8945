"""Agents: defined once, used by many tasks, handed over to each other, and checked where they are defined."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import pytest
from pydantic import BaseModel

from segue import (
    Agent,
    AskAgain,
    Budget,
    Chat,
    Context,
    MemoryStore,
    ScriptedProvider,
    SQLiteStore,
    default_registry,
    tool,
)
from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, Think, serve
from segue.errors import ProtocolError, UsageError
from segue.events import PartialOutput, Repaired, Switch
from segue.providers import calls, says
from segue.testing import emulated_providers


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


@dataclass
class Shop:
    """What tools of a request need."""

    customer: str
    asked: list[str] = field(default_factory=list)


class Parcel(BaseModel):
    number: int
    place: str = ""


def where(parcel: Parcel, context: Context[Shop]) -> str:
    """Where a parcel is."""
    context.deps.asked.append(f"{context.deps.customer}: {parcel.number}")
    return "Oslo"


def greet(context: Context[Shop]) -> str:
    return f"You help {context.deps.customer}."


def scripted(*replies: Any) -> ScriptedProvider:
    return ScriptedProvider(list(replies))


def systems(provider: ScriptedProvider) -> list[str]:
    return [request.conversation.system for request in provider.requests]


@in_loop
async def test_one_agent_serves_many_tasks_each_with_its_own_dependencies() -> None:
    agent = Agent("scripted/any", name="support", instructions=greet, tools=[where], deps=Shop)

    async def ask(number: int) -> tuple[str, Shop, list[str]]:
        shop = Shop(f"customer {number}")
        provider = scripted(calls(("where", {"parcel": {"number": number}})), says(f"Found {number}."))
        answer = await agent.run("Where is it?", deps=shop, providers={"scripted": provider})
        return answer.text, shop, systems(provider)

    for number, (text, shop, told) in enumerate(await asyncio.gather(*map(ask, range(20)))):
        assert text == f"Found {number}."
        assert shop.asked == [f"customer {number}: {number}"]
        assert told == [f"You help customer {number}."] * 2


@in_loop
async def test_instructions_are_made_anew_for_each_turn_and_kept_in_the_session() -> None:
    turns: list[int] = []

    async def count(context: Context[None]) -> str:
        turns.append(len(turns) + 1)
        assert context.session == "s"
        return f"Turn {turns[-1]}."

    provider, store = scripted(says("A."), says("B."), says("C.")), MemoryStore()
    agent = Agent("scripted/any", instructions=count, providers={"scripted": provider}, store=store)
    async with agent.chat(session="s") as chat:
        await chat.send("One")
        await chat.send("Two")
        await chat.send("Three", system="Given for this turn.")
        assert chat.conversation.system == "Turn 2."
    assert systems(provider) == ["Turn 1.", "Turn 2.", "Given for this turn."]


@in_loop
async def test_instructions_that_fail_raise_before_anything_is_sent_and_the_chat_stays_usable() -> None:
    broken = [True]

    def sometimes(_context: Context) -> str:
        if broken.pop():
            raise LookupError("no database")
        return "Help."

    broken.insert(0, False)
    provider = scripted(says("Hello."))
    async with Chat("scripted/any", system=sometimes, providers={"scripted": provider}) as chat:
        with pytest.raises(LookupError, match="no database"):
            await chat.send("Hello")
        assert not chat.conversation.messages
        assert (await chat.send("Hello")).text == "Hello."


@in_loop
async def test_answers_of_an_agent_have_its_type() -> None:
    provider = scripted(says('{"number": 7, "place": "Oslo"}'))
    agent = Agent("scripted/any", output=Parcel, providers={"scripted": provider})
    answer = await agent.run("Which?")
    assert answer.output == Parcel(number=7, place="Oslo")


def known(parcel: Parcel, context: Context[Shop]) -> Parcel:
    context.deps.asked.append(parcel.place)
    if parcel.place != "Oslo":
        raise AskAgain(f"There is no parcel in {parcel.place}.")
    return Parcel(number=parcel.number, place="Oslo S")


@in_loop
async def test_a_check_asks_the_model_again_with_a_reason_and_may_change_the_answer() -> None:
    provider = scripted(says('{"number": 7, "place": "Rome"}'), says('{"number": 7, "place": "Oslo"}'))
    agent = Agent("scripted/any", output=Parcel, check=known, deps=Shop, providers={"scripted": provider})
    shop = Shop("a")
    answer = await agent.run("Where?", deps=shop)
    assert answer.output == Parcel(number=7, place="Oslo S")
    assert shop.asked == ["Rome", "Oslo"]
    note = provider.requests[1].conversation.messages[-1]
    assert note.instruction
    assert note.text.startswith("Your answer was not accepted: There is no parcel in Rome. ")


@in_loop
async def test_a_check_that_never_accepts_ends_the_turn_within_its_budget() -> None:
    wrong = says('{"number": 7, "place": "Rome"}')
    provider = scripted(*[wrong] * 9)
    agent = Agent(
        "scripted/any",
        output=Parcel,
        check=known,
        deps=Shop,
        budget=Budget(max_corrections=3),
        providers={"scripted": provider},
    )
    with pytest.raises(ProtocolError, match="There is no parcel in Rome") as raised:
        await agent.run("Where?", deps=Shop("a"))
    assert raised.value.code == "bad_answer"
    assert len(provider.requests) == 4


@in_loop
async def test_a_text_is_checked_too_and_for_one_turn() -> None:
    async def short(text: str, _context: Context) -> str:
        if len(text) > 5:
            raise AskAgain("It is too long")
        return text.upper()

    provider = scripted(says("Much too long."), says("Yes."), says("Not checked now."))
    async with Chat("scripted/any", providers={"scripted": provider}) as chat:
        answer = await chat.send("Yes?", check=short)
        assert (answer.text, answer.output) == ("YES.", None)
        assert answer.message is not None
        assert answer.message.text == "Yes."
        assert (await chat.send("Yes?")).text == "Not checked now."
    said = provider.requests[1].conversation.messages[-1].text
    assert said == "Your answer was not accepted: It is too long. Answer again."


@in_loop
async def test_a_check_that_returns_nothing_is_reported() -> None:
    provider = scripted(says("Yes."))
    async with Chat("scripted/any", providers={"scripted": provider}) as chat:
        with pytest.raises(UsageError, match="returned None") as raised:
            await chat.send("Yes?", check=lambda _text, _context: None)
    assert raised.value.code == "bad_check"


# Handing over


def support(store: Any, providers: Any) -> Agent[Shop, None]:
    """Two agents that name each other, on different providers."""

    @tool(effect="read")
    def refund(context: Context[Shop]) -> str:
        """Give the money back."""
        context.deps.asked.append("refund")
        return "refunded"

    billing: Agent[Shop, None] = Agent(
        "second/b",
        name="billing",
        description="Money.",
        instructions="You handle money.",
        tools=[refund],
        deps=Shop,
        handoffs=lambda: [front],
    )
    front: Agent[Shop, None] = Agent(
        "scripted/a",
        name="front",
        instructions=greet,
        tools=[where],
        deps=Shop,
        handoffs=[billing],
        store=store,
        providers=providers,
    )
    return front


@in_loop
async def test_handing_over_keeps_one_conversation_and_brings_model_instructions_and_tools() -> None:
    first = scripted(calls(("hand_over_to_billing", {})))
    second = ScriptedProvider([calls(("refund", {})), says("Done.")], name="second")
    store = MemoryStore()
    agent = support(store, {"scripted": first, "second": second})
    shop = Shop("Ann")
    async with agent.chat(session="s", deps=shop) as chat:
        events = [event async for event in chat.stream("My money back!")]
        assert chat.answer is not None
        assert (chat.answer.text, chat.answer.finish, chat.answer.model) == ("Done.", "complete", "second/b")
        (switch,) = [event for event in events if type(event) is Switch]
        assert (switch.previous, switch.model, switch.reason) == ("scripted/a", "second/b", "handed_over")
        assert [message.speaker for message in chat.conversation.messages] == [
            "user",
            "model",
            "tool",
            "model",
            "tool",
            "model",
        ]
        assert chat.model == "second/b"
    assert shop.asked == ["refund"]
    (asked, again) = second.requests
    assert asked.conversation.system == again.conversation.system == "You handle money."
    assert [spec.name for spec in asked.tools] == ["refund", "hand_over_to_front"]
    assert asked.conversation.messages[0].text == "My money back!"


@in_loop
async def test_a_session_that_was_handed_over_is_resumed_with_the_agent_that_has_it() -> None:
    first = scripted(calls(("hand_over_to_billing", {})), says("Front again."))
    second = ScriptedProvider(
        [says("Billing here."), says("Still billing."), calls(("hand_over_to_front", {}))], name="second"
    )
    store, shop = MemoryStore(), Shop("Ann")
    providers = {"scripted": first, "second": second}
    async with support(store, providers).chat(session="s", deps=shop) as chat:
        await chat.send("Money!")
    async with support(store, providers).chat(session="s", deps=shop) as chat:
        assert (await chat.send("Hello?")).text == "Still billing."
        assert (await chat.send("Back to the front, please.")).text == "Front again."
        assert chat.conversation.system == "You help Ann."
    async with support(store, providers).chat(session="s", deps=shop) as chat:
        assert chat.model == "scripted/a"
    other = Agent(
        "scripted/a", name="other", handoffs=[Agent("scripted/a", name="third")], providers=providers
    )
    async with support(store, providers).chat(session="s", deps=shop) as chat:
        second.add(says("Billing."))
        first.add(calls(("hand_over_to_billing", {})))
        await chat.send("Money again!")
    with pytest.raises(UsageError, match='handed over to "billing"'):
        await other.chat(session="s", store=store).open()


@in_loop
async def test_a_turn_that_ends_with_its_last_exchange_is_handed_over_at_the_next() -> None:
    first = scripted(calls(("hand_over_to_billing", {})))
    second = ScriptedProvider([says("Billing here.")], name="second")
    agent = support(MemoryStore(), {"scripted": first, "second": second})
    async with agent.chat(deps=Shop("Ann")) as chat:
        assert (await chat.send("Money!", max_turns=1)).finish == "max_turns"
        assert (await chat.send("Hello?")).text == "Billing here."
    assert second.requests[0].conversation.system == "You handle money."


@in_loop
async def test_two_calls_to_hand_over_go_to_the_first() -> None:
    one = Agent("scripted/one", name="one")
    two = Agent("scripted/two", name="two")
    provider = scripted(calls(("hand_over_to_two", {}), ("hand_over_to_one", {})), says("Two."))
    front = Agent("scripted/any", name="front", handoffs=[one, two], providers={"scripted": provider})
    async with front.chat() as chat:
        assert (await chat.send("Go.")).model == "scripted/two"
        results = [interaction.result for interaction in chat.ledger.values()]
    assert [result.output for result in results if result is not None] == [
        "two answers from here on.",
        "The conversation goes to two already.",
    ]


@in_loop
async def test_handing_over_is_accepted_by_strict_providers_of_every_kind() -> None:
    models = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-4.1", "gemini": "gemini-3.5-flash"}
    for begins, first in models.items():
        for takes, second in models.items():
            replies: list[Call | Say] = [Call("hand_over_to_second", {}), Say("Here."), Say("Still.")]
            with serve(
                emulator=Emulator(responder=ScriptedResponder([Reply(pieces=(one,)) for one in replies]))
            ) as api:
                there = Agent(f"{takes}/{second}", name="second", instructions="Second.")
                here = Agent(f"{begins}/{first}", name="first", handoffs=[there], providers=_registry(api))
                async with here.chat() as chat:
                    assert (await chat.send("Go.")).text == "Here."
                    assert (await chat.send("And now?")).text == "Still."
                assert [entry.verdict for entry in api.emulator.log] == ["accepted"] * 3


def _registry(api: Any) -> Any:
    variables = {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": api.url("anthropic"),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{api.url('openai')}/v1",
        "GOOGLE_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": api.url("gemini"),
    }
    return default_registry(environ=variables, keyring=False)


@in_loop
async def test_an_agent_as_a_tool_works_in_a_conversation_of_its_own_with_the_same_dependencies() -> None:
    child = ScriptedProvider([calls(("where", {"parcel": {"number": 1}})), says("In Oslo.")], name="child")
    parent = scripted(calls(("finder", {"task": "Find it."})), says("It is in Oslo."))
    finder = Agent("child/c", name="finder", description="Finds parcels.", tools=[where], deps=Shop)
    agent = Agent("scripted/any", tools=[finder.as_tool()], deps=Shop)
    shop = Shop("Ann")
    answer = await agent.run("Where?", deps=shop, providers={"scripted": parent, "child": child})
    assert answer.text == "It is in Oslo."
    assert shop.asked == ["Ann: 1"]
    assert child.requests[0].conversation.messages[0].text == "Find it."


# Definitions


def test_an_agent_does_not_change() -> None:
    agent = Agent("scripted/any", name="a")
    with pytest.raises(AttributeError, match="does not change"):
        agent.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del agent.name
    assert repr(agent) == "Agent('a')"


DEFINITIONS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Agent(tools=[where]), 'tool "where" wants dependencies of type Shop'),
    (lambda: Agent(tools=[where], deps=dict), "wants dependencies of type Shop"),
    (lambda: Agent(tools=[object()]), "is no tool"),  # type: ignore[list-item]
    (lambda: Agent(output=object), "cannot be the type of an answer"),
    (lambda: Agent(handoffs=[Agent()]), "needs a name"),
    (lambda: Agent(name="a", handoffs=[Agent(name="a")]), 'Two agents are called "a"'),
    (lambda: Agent(name="a", handoffs=[Agent(name="b", output=int)]), "answers with none"),
    (lambda: Agent(name="a", handoffs=[Agent(name="b", deps=Shop)]), '"b" wants dependencies'),
    (lambda: Agent(name="a b").as_tool(), "needs a name"),
    (lambda: Agent(deps=Shop).chat(), "wants dependencies of type Shop, and none are given"),
    (lambda: Agent(deps=Shop).chat(deps=3), "of type int"),  # type: ignore[arg-type]
    (lambda: Chat("scripted/any", tools=[where]), 'tool "where" wants dependencies'),
]


@pytest.mark.parametrize(("define", "why"), DEFINITIONS)
def test_a_wrong_definition_is_refused_when_it_is_made(define: Callable[[], Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        define()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (
            lambda: Chat(modle="a"),  # type: ignore[call-arg]
            "Chat() got an unexpected keyword argument 'modle'. Did you mean \"model\"?",
        ),
        (lambda: Agent(instruction="a"), 'Did you mean "instructions"?'),  # type: ignore[call-overload]
        (
            lambda: tool(efect="read"),  # type: ignore[call-overload]
            "tool() got an unexpected keyword argument 'efect'. Did you mean \"effect\"?",
        ),
        (lambda: Chat(zzz=1), "Known are: model, tools, system,"),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_keyword_is_named_with_the_one_that_is_meant(call: Callable[[], Any], meant: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert meant in str(raised.value)


# Histories

CHAT = [
    {"role": "user", "content": "Where is parcel 7?"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "where", "arguments": '{"number": 7}'}}
        ],
    },
]
MESSAGES = {
    "model": "claude-sonnet-4-6",
    "system": "Help.",
    "messages": [
        {"role": "user", "content": "Where is parcel 7?"},
        {"role": "assistant", "content": [{"type": "text", "text": "In Oslo."}]},
    ],
}


@in_loop
async def test_a_chat_begins_with_messages_of_any_wire_and_reports_what_it_repaired() -> None:
    with serve(
        emulator=Emulator(responder=ScriptedResponder([Reply(pieces=(Say("Still in Oslo."),))]))
    ) as api:
        async with Chat("anthropic/claude-sonnet-4-6", history=CHAT, providers=_registry(api)) as chat:
            events = [event async for event in chat.stream("And now?")]
            assert chat.answer is not None
            assert chat.answer.text == "Still in Oslo."
            repairs = [repair.kind for event in events if type(event) is Repaired for repair in event.repairs]
    assert "call_closed" in repairs
    assert [message.speaker for message in chat._session.journal.state.conversation.messages] == [
        "user",
        "model",
        "user",
        "model",
    ]


@in_loop
async def test_a_history_may_be_a_request_a_document_a_conversation_a_file_or_objects_of_an_sdk(
    tmp_path: Any,
) -> None:
    from anthropic.types import Message as AnthropicMessage

    provider = scripted(*[says("Yes.")] * 9)
    providers = {"scripted": provider}
    async with Chat("scripted/any", history=MESSAGES, providers=providers) as chat:
        assert chat.conversation.system == "Help."
        document, conversation = chat.export(), chat.conversation
    path = tmp_path / "session.json"
    path.write_bytes(document)
    received = AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [{"type": "text", "text": "In Oslo."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    asked = MESSAGES["messages"][0]
    objects = [asked, {"role": "assistant", "content": received.content}]
    for history in (MESSAGES, MESSAGES["messages"], document, conversation, path, objects, [asked, received]):
        async with Chat("scripted/any", history=history, providers=providers) as chat:
            await chat.send("And now?")
            said = [(message.speaker, message.text) for message in chat.conversation.messages]
        assert said == [
            ("user", "Where is parcel 7?"),
            ("model", "In Oslo."),
            ("user", "And now?"),
            ("model", "Yes."),
        ]


ITEMS = [
    {"role": "user", "content": "Where is parcel 7?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbA=="},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Oslo."}],
    },
]


@pytest.mark.parametrize(
    "history", [CHAT, MESSAGES["messages"], ITEMS], ids=["chat", "messages", "responses"]
)
@pytest.mark.parametrize("model", ["openai/gpt-5.5", "anthropic/claude-sonnet-4-6", "deepseek/deepseek-chat"])
@in_loop
async def test_rows_of_a_database_may_have_columns_that_no_wire_takes(history: Any, model: str) -> None:
    emulator = Emulator(strict=True, responder=ScriptedResponder([Reply(pieces=(Say("Yes."),))]))
    rows = [{**message, "created_at": "2026-01-01", "row": "7"} for message in history]
    async with Chat(model, history=rows, providers=emulated_providers(emulator)) as chat:
        events = [event async for event in chat.stream("And now?")]
    assert [entry.verdict for entry in emulator.log] == ["accepted"]
    assert "created_at" not in str(emulator.log[0].body)
    lost = [repair.decision for event in events if type(event) is Repaired for repair in event.repairs]
    assert sum("created_at, row" in decision for decision in lost) == len(rows)


@in_loop
async def test_items_that_the_provider_knows_go_back_without_their_thought_and_without_their_ids() -> None:
    from openai import AsyncOpenAI

    replies = [Reply(pieces=(Think("Look."), Say("Oslo."))), Reply(pieces=(Say("Yes."),))]
    emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
    with serve(emulator=emulator) as api:
        client = AsyncOpenAI(base_url=f"{api.url('openai')}/v1", api_key="any")
        response = await client.responses.create(model="gpt-5.5", input="Where is it?")
        await client.close()
        history = [{"role": "user", "content": "Where is it?"}, *response.output]
        async with Chat("openai/gpt-5.5", history=history, providers=_registry(api)) as chat:
            assert str(await chat.send("Really?")) == "Yes."
    assert [entry.verdict for entry in emulator.log] == ["accepted", "accepted"]


FOREIGN_SEALS: list[tuple[str, dict[str, Any]]] = [
    ("openai/gpt-5.5", {"model": "gpt-5.5", "input": ITEMS}),
    (
        "anthropic/claude-sonnet-4-6",
        {
            "model": "claude-sonnet-4-6",
            "messages": [
                {"role": "user", "content": "Where is parcel 7?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Look.", "signature": "c2VhbA=="},
                        {"type": "text", "text": "Oslo."},
                    ],
                },
            ],
        },
    ),
]


@pytest.mark.parametrize(("model", "history"), FOREIGN_SEALS)
@in_loop
async def test_seals_of_a_history_that_the_provider_refuses_are_left_out(
    model: str, history: dict[str, Any]
) -> None:
    replies = [Reply(pieces=(Say("Yes."),))] * 2
    emulator = Emulator(strict=True, responder=ScriptedResponder(replies))
    async with Chat(model, history=history, providers=emulated_providers(emulator)) as chat:
        events = [event async for event in chat.stream("And now?")]
        await chat.send("And now?")
    assert [entry.verdict for entry in emulator.log] == ["refused", "accepted", "accepted"]
    kinds = [repair.kind for event in events if type(event) is Repaired for repair in event.repairs]
    assert kinds == ["reasoning_dropped"]


@in_loop
async def test_a_history_that_ends_with_a_question_is_answered_by_resume() -> None:
    provider = scripted(says("In Oslo."))
    history = [{"role": "user", "content": "Where?"}]
    async with Chat(
        "scripted/any", history=history, system="Mine.", providers={"scripted": provider}
    ) as chat:
        assert (await chat.resume()).text == "In Oslo."
        assert chat.conversation.system == "Mine."


@in_loop
async def test_a_history_is_kept_in_the_store_and_begins_only_new_sessions(tmp_path: Any) -> None:
    provider, store = scripted(says("Yes."), says("Yes.")), SQLiteStore(tmp_path / "sessions.db")
    agent = Agent("scripted/any", providers={"scripted": provider}, store=store)
    await agent.run("And now?", session="s", history=CHAT)
    async with agent.chat(session="s") as chat:
        assert len(chat.conversation.messages) == 4
    with pytest.raises(UsageError, match="has a conversation of its own") as raised:
        await agent.run("And now?", session="s", history=CHAT)
    assert raised.value.path == "history"
    async with agent.chat(session="s") as chat:  # nobody holds it
        await chat.send("Again.")
    await store.close()


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ("hello", "A text is no history"),
        ({"messages": []}, "holds no message"),
        ([object()], "cannot be written as JSON"),
        ({"nonsense": 1}, "recognise"),
    ],
)
def test_what_is_no_history_is_refused_when_the_chat_is_made(history: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        Chat("scripted/any", history=history)


# Values while they are written


@in_loop
async def test_a_typed_answer_is_seen_while_it_is_written() -> None:
    whole = '{"number": 12, "place": "Oslo S"}'
    provider = ScriptedProvider(
        [[*(event for piece in _pieces(whole) for event in says(piece)[:-1]), *says("")]]
    )
    agent = Agent("scripted/any", output=Parcel, providers={"scripted": provider})
    async with agent.chat() as chat:
        seen = [event.value async for event in chat.stream("Where?") if type(event) is PartialOutput]
        assert chat.answer is not None
        assert chat.answer.output == Parcel(number=12, place="Oslo S")
    assert seen[0] == {}
    assert {"number": 12, "place": "Os"} in seen
    assert {"number": 1} not in seen
    assert seen[-1] == {"number": 12, "place": "Oslo S"}


def _pieces(text: str) -> list[str]:
    return list(text)
