"""A real server refuses nothing of what we render, also with a template that refuses bad order and bad ids."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opinions.llama_server import fetched_server, fetched_weights, running
from opinions.templates import fetched_sources
from segue.conversation.events import Failed, Finished
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.providers.adapter import ChatRequest, StreamEvent, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.registry import default_registry
from strategies.histories import conversations

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SEGUE_SECOND_OPINIONS") != "1",
        reason="fetches a server and a model; asked for by SEGUE_SECOND_OPINIONS=1, as `make opinions` does",
    ),
    pytest.mark.timeout(1800),
]
STRICT: Final = "mistralai-Mistral-Nemo-Instruct-2407"
WIRES: Final = {
    "chat": ProviderConfig(dialect="llama_cpp"),
    "responses": ProviderConfig(dialect="openai_responses"),
    "messages": ProviderConfig(dialect="anthropic"),
}
READ: Final = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"n": {"type": "integer"}}})
EXAMPLES: Final = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return fetched_server(tmp_path_factory.mktemp("llama-server"))


@pytest.fixture(scope="module")
def weights() -> Path:
    return fetched_weights()


@pytest.fixture(scope="module")
def lenient(program: Path | None, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(program, weights, tmp_path_factory.mktemp("lenient")) as address:
        yield address


@pytest.fixture(scope="module")
def strict(program: Path | None, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("templates")
    template = folder / "strict.jinja"
    template.write_text(fetched_sources(folder)[STRICT], "utf-8")
    with running(program, weights, folder, template) as address:
        yield address


def _events(address: str, wire: str, request: ChatRequest) -> list[StreamEvent]:
    base = address if wire == "messages" else f"{address}/v1"
    config = ProviderConfig(base_url=base, dialect=WIRES[wire].dialect)

    async def ask() -> list[StreamEvent]:
        provider = default_registry(configs={"local": config}, environ={}).get("local")
        assert provider is not None
        asked = ChatRequest(
            model=request.model,
            conversation=request.conversation,
            tools=request.tools,
            options=request.options,
        )
        return [event async for event in provider.chat_stream(asked)]

    return asyncio.run(ask())


@pytest.mark.parametrize("wire", WIRES)
def test_a_real_model_answers_on_every_wire(lenient: str, wire: str) -> None:
    request = ChatRequest(
        model="smollm2",
        conversation=Conversation(system="Be brief.").append(user("Name a colour.")),
        options=Options(max_tokens=16, temperature=0.0),
    )
    reply = fold_stream(_events(lenient, wire, request))
    assert reply.error is None
    assert reply.message.text.strip()
    assert reply.usage.output_tokens


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_history_makes_the_server_refuse(lenient: str, wire: str, data: st.DataObject) -> None:
    _check(lenient, wire, "smollm2", data)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_history_makes_the_strict_template_refuse(strict: str, data: st.DataObject) -> None:
    _check(strict, "chat", "mistral-nemo", data)


def _check(address: str, wire: str, model: str, data: st.DataObject) -> None:
    dialect = DIALECTS[WIRES[wire].dialect]
    history: Conversation = data.draw(conversations(dialect.rules.at(model=model)))
    request = ChatRequest(
        model=model, conversation=history, tools=(READ,), options=Options(max_tokens=1, temperature=0.0)
    )
    events = _events(address, wire, request)
    assert isinstance(events[-1], Finished), _told(events[-1])


def _told(event: StreamEvent) -> str:
    return f"{event.error} {getattr(event.error, 'body', b'')!r}" if isinstance(event, Failed) else str(event)


def test_the_strict_template_does_refuse_what_is_sent_unrendered(strict: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    broken: list[list[dict[str, Any]]] = [
        [{"role": "user", "content": "?"}, {"role": "user", "content": "?"}],
        [{"role": "assistant", "content": "."}, {"role": "user", "content": "?"}],
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}],
        [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "!"},
        ],
    ]
    statuses = [_status(strict, messages) for messages in broken]
    assert all(status >= 400 for status in statuses), statuses


def _status(address: str, messages: list[dict[str, Any]]) -> int:
    body = json.dumps({"model": "m", "messages": messages, "max_tokens": 1}).encode()
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{address}/v1/chat/completions", body, {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
