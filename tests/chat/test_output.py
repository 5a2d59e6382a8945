"""Answers of a type: every kind of type, every provider, and what happens to an answer that does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field, HttpUrl

from segue import Answer, Chat, Options, ScriptedProvider, default_registry
from segue.chat.output_type import output_type
from segue.dialects.schemas.strict import strict_schema
from segue.emulators import Reply, Say, ScriptedResponder, serve
from segue.errors import ProtocolError, UsageError
from segue.events import Error, Warned
from segue.providers import calls, says
from segue.providers.config import ProviderConfig


@dataclass
class Place:
    """A dataclass."""

    city: str
    people: int = 0


class Typed(TypedDict):
    """A TypedDict."""

    city: str
    people: NotRequired[int]


class Held(msgspec.Struct):
    """A Struct that holds another."""

    city: str
    twin: Place | None = None


class Model(BaseModel):
    """A pydantic model with a rule that no schema of a provider has to know."""

    city: str = Field(min_length=1)
    places: list[Place] = []


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WORDS = "Answer with JSON that follows this schema"
OSLO = '{"city": "Oslo"}'
KINDS: list[tuple[Any, str, Any]] = [
    (Place, OSLO, Place("Oslo")),
    (Typed, OSLO, {"city": "Oslo"}),
    (Held, '{"city": "Oslo", "twin": {"city": "Rome", "people": 3}}', Held("Oslo", Place("Rome", 3))),
    (Model, '{"city": "Oslo", "places": [{"city": "Rome"}]}', Model(city="Oslo", places=[Place("Rome")])),
    (SCHEMA, OSLO, {"city": "Oslo"}),
    (list[Place], '{"answer": [{"city": "Oslo"}]}', [Place("Oslo")]),
    (list[Model], '[{"city": "Oslo"}]', [Model(city="Oslo")]),
    (int, '{"answer": 7}', 7),
]
MODELS = {
    "openai": "gpt-4.1",
    "anthropic": "claude-sonnet-4-6",
    "gemini": "gemini-3.5-flash",
    "mistral": "mistral-large-latest",
    "kimi": "kimi-k2-thinking",
    "deepseek": "deepseek-chat",
    "ollama": "qwen3:8b",
}
VARIABLES = {
    "gemini": ("GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    "kimi": ("MOONSHOT_API_KEY", "MOONSHOT_BASE_URL"),
    "ollama": ("OLLAMA_API_KEY", "OLLAMA_HOST"),
}


def scripted(*texts: str, **settings: Any) -> tuple[Chat, ScriptedProvider]:
    provider = ScriptedProvider([says(text) for text in texts])
    return Chat("scripted/any", providers={"scripted": provider}, **settings), provider


@pytest.mark.parametrize(("kind", "text", "value"), KINDS)
def test_an_answer_is_a_checked_value_of_every_kind_of_type(kind: Any, text: str, value: Any) -> None:
    chat, _ = scripted(text)
    with chat.blocking() as blocking:
        answer: Answer[Any] = blocking.send("Where?", output=kind)
        assert (answer.output, answer.text) == (value, text)
        assert blocking.answer == answer


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_the_schema_of_a_type_can_be_enforced_by_every_provider(kind: Any) -> None:
    schema = output_type(kind).schema
    assert schema["type"] == "object"
    assert strict_schema(schema)[0] is not None
    assert "default" not in msgspec.json.encode(schema).decode()


class Route(BaseModel):
    """Fields as builders write them."""

    start: Model = Field(description="Where it begins.")
    via: list[Place | Model] = Field(default=[], description="On the way.")
    how: Literal["train", "car"] = "train"
    at: datetime | None = None
    page: HttpUrl | None = None
    back: Route | None = None


def test_openai_holds_an_answer_strictly_to_a_type_with_descriptions_defaults_and_recursion() -> None:
    answer: dict[str, Any] = {
        "start": {"city": "Oslo", "places": []},
        "via": [],
        "how": "car",
        "at": None,
        "page": None,
        "back": None,
    }
    with serve() as api:
        responder = api.emulator.responder
        assert isinstance(responder, ScriptedResponder)
        responder.add(*[Reply(pieces=(Say(json.dumps(answer)),))] * 2)
        address = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": f"{api.url('openai')}/v1"}
        for dialect in ("openai_responses", "openai_chat"):
            configs = {"openai": ProviderConfig(dialect=dialect)}
            registry = default_registry(configs, environ=address, keyring=False)
            with Chat("openai/gpt-4.1", providers=registry).blocking() as chat:
                assert chat.send("Where?", output=Route).output == Route(start=Model(city="Oslo"), how="car")
        formats = [
            entry.body["text"]["format"]
            if "text" in entry.body
            else entry.body["response_format"]["json_schema"]
            for entry in api.emulator.log
        ]
        assert [one["strict"] for one in formats] == [True, True]


@pytest.mark.parametrize(
    ("model", "native"),
    [
        ("claude-3-5-haiku-latest", False),
        ("claude-3-7-sonnet-20250219", False),
        ("claude-sonnet-4-20250514", False),
        ("claude-opus-4-20250514", False),
        ("claude-opus-4-1-20250805", True),
        ("claude-haiku-4-5", True),
        ("claude-sonnet-4-5-20250929", True),
        ("claude-opus-4-5", True),
        ("claude-sonnet-4-6", True),
    ],
)
def test_a_claude_model_without_schemas_reads_it_in_words(model: str, *, native: bool) -> None:
    with serve() as api:
        responder = api.emulator.responder
        assert isinstance(responder, ScriptedResponder)
        responder.add(Reply(pieces=(Say(OSLO),)))
        address = {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": api.url("anthropic")}
        registry = default_registry(environ=address, keyring=False)
        with Chat(f"anthropic/{model}", providers=registry).blocking() as chat:
            assert chat.send("Where?", output=Place).output == Place("Oslo")
            assert not any(message.instruction for message in chat.chat.conversation.messages)
        sent = api.emulator.log[-1].body
        assert ("format" in sent.get("output_config", {})) is native
        assert (WORDS in str(sent.get("system"))) is not native


@pytest.mark.parametrize("name", MODELS)
def test_every_provider_answers_by_the_schema(name: str) -> None:
    with serve() as api:
        responder = api.emulator.responder
        assert isinstance(responder, ScriptedResponder)
        path = "" if name in ("anthropic", "ollama", "gemini") else "/v1"
        key, variable = VARIABLES.get(name, (f"{name.upper()}_API_KEY", f"{name.upper()}_BASE_URL"))
        address = {key: "any", variable: api.url(name) + path}
        registry = default_registry(environ=address, keyring=False)
        with Chat(f"{name}/{MODELS[name]}", providers=registry).blocking() as chat:
            if name == "deepseek":  # it has no schemas: the model reads it in words
                responder.add(Reply(pieces=(Say(OSLO),)))
            assert isinstance(chat.send("Where?", output=Place).output, Place)
            assert (WORDS in str(api.emulator.log[-1].body)) == (name == "deepseek")
            responder.add(Reply(pieces=(Say("Oslo, I think."),)), Reply(pieces=(Say(OSLO),)))
            assert chat.send("And now?", output=Place).output == Place("Oslo")  # corrected once
            assert {entry.verdict for entry in api.emulator.log} == {"accepted"}


def test_a_wrong_answer_is_corrected_once_and_the_model_reads_what_was_wrong() -> None:
    chat, provider = scripted("Oslo.", f"```json\n{OSLO}\n```")
    with chat.blocking() as blocking:
        events = list(blocking.stream("Where?", output=Place))
        assert blocking.answer is not None
        assert blocking.answer.output == Place("Oslo")
        assert [event.code for event in events if isinstance(event, Warned)] == ["answer_corrected"]
        correction = provider.requests[1].conversation.messages[-1]
        assert correction.instruction
        assert correction.text.startswith("Your answer is not JSON")


def test_what_does_not_fit_twice_raises_with_the_text_and_the_chat_stays_usable() -> None:
    chat, _ = scripted("Oslo.", '{"city": 7}', "Fine.")
    with chat.blocking() as blocking:
        with pytest.raises(ProtocolError, match=r"does not match its type.*city") as failed:
            blocking.send("Where?", output=Place)
        assert failed.value.code == "bad_answer"
        assert failed.value.answer.text == '{"city": 7}'
        assert blocking.send("Hello").text == "Fine."


@pytest.mark.parametrize("output", [Place, None])
def test_resuming_after_an_answer_that_does_not_fit_does_not_call_it_cut_off(output: Any) -> None:
    chat, provider = scripted("Oslo.", '{"city": 7}', OSLO)
    with chat.blocking() as blocking:
        with pytest.raises(ProtocolError, match="does not match"):
            blocking.send("Where?", output=Place)
        assert blocking.resume(output=output).text == OSLO
        notes = [
            message.text for message in provider.requests[-1].conversation.messages if message.instruction
        ]
        assert not any("cut off" in note for note in notes)
        wanted = "Your answer does not match" if output is Place else "Your last answer could not be used"
        assert any(note.startswith(wanted) for note in notes)


def test_a_stream_reports_an_answer_that_does_not_fit_as_an_event() -> None:
    chat, _ = scripted("Oslo.", "Oslo!")
    with chat.blocking() as blocking:
        errors = [
            event.error.code for event in blocking.stream("Where?", output=SCHEMA) if type(event) is Error
        ]
        assert errors == ["bad_answer"]
        assert blocking.answer is not None
        assert (blocking.answer.finish, blocking.answer.output) == ("error", None)


def test_a_turn_that_is_cut_short_has_no_output_and_raises() -> None:
    async def forever() -> str:
        """Look again."""
        return "no"

    provider = ScriptedProvider([calls(("forever", {}))])
    chat = Chat("scripted/any", tools=[forever], providers={"scripted": provider})
    with chat.blocking() as blocking, pytest.raises(ProtocolError, match="max_turns") as failed:
        blocking.send("Where?", output=Place, max_turns=1)
    assert failed.value.code == "no_output"


def test_the_type_holds_for_one_turn_and_no_note_is_changed_afterwards() -> None:
    chat, provider = scripted(OSLO, "Just words.")
    with chat.blocking() as blocking:
        blocking.send("Where?", output=Place)
        assert blocking.send("Why?").text == "Just words."
        first, second = provider.requests
        assert first.options.response_schema == output_type(Place).schema
        assert second.options.response_schema is None
        held = first.conversation.messages
        assert second.conversation.messages[: len(held)] == held
        assert blocking.chat.options == Options()


@pytest.mark.parametrize("kind", [object(), ScriptedProvider, {"type": 7}, print])
def test_what_is_no_type_is_refused_before_anything_is_sent(kind: Any) -> None:
    chat, provider = scripted("never")
    with chat.blocking() as blocking, pytest.raises(UsageError):
        blocking.send("Where?", output=kind)
    assert provider.requests == []


def test_a_type_as_response_schema_is_a_clear_error_at_once() -> None:
    with pytest.raises(UsageError, match=r"not Model.*output=Type"):
        Options(response_schema=Model)  # type: ignore[arg-type]


def test_pydantic_is_imported_by_nobody_but_its_user() -> None:
    program = """
import sys
from dataclasses import dataclass
from segue import Chat, ScriptedProvider
from segue.providers import says

@dataclass
class City:
    name: str

provider = ScriptedProvider([says('{"name": "Oslo"}')])
# A model whose price is in the catalog: those of others are looked up in a package that uses pydantic.
with Chat("openai/gpt-5", providers={"openai": provider}).blocking() as chat:
    print(chat.send("Where?", output=City).output, "pydantic" in sys.modules)
"""
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stdout.strip() == "City(name='Oslo') False"
