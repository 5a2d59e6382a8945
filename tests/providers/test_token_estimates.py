"""Estimates of tokens, held against real tokenizers, and what makes them cheap."""

from __future__ import annotations

import time
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segue
from segue.conversation.blocks import Media, ToolCall, ToolResult
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.tools import ToolSpec
from segue.dialects.registry import DIALECTS
from segue.providers.adapter import ChatRequest
from segue.providers.token_counts import (
    Estimator,
    estimate_request,
    families,
    family_of,
    text_tokens,
    weights_of,
)
from strategies.histories import conversations

SOURCE = Path(segue.__file__).parent
LONG = {
    "english": "The ships hung in the sky in much the same way that bricks do not. She looked up and laughed. ",
    "german": "Die Straßenbahn fährt heute wegen einer Störung nicht; bitte benutzen Sie den Ersatzverkehr am Bahnhof. ",
    "chinese": "今天的天气很好，我们一起去公园散步，然后在湖边的咖啡馆喝一杯热茶。",
    "japanese": "今日は天気がいいので、公園を散歩して、湖のそばの喫茶店でお茶を飲みましょう。",
    "russian": "Сегодня хорошая погода, и мы пойдём гулять в парк, а потом выпьем чаю у озера. ",
    "json": '{"id": 48213, "name": "get_weather", "arguments": {"city": "Paris", "days": 3, "metric": true}},\n',
}


def asking(conversation: Conversation, name: str = "gpt-4.1", *tools: ToolSpec) -> ChatRequest:
    return ChatRequest(model=name, conversation=conversation, tools=tools)


@lru_cache(maxsize=1)
def tekken() -> object:
    tokens = pytest.importorskip("mistral_common.tokens.tokenizers.tekken")
    data = Path(tokens.__file__).parents[2] / "data" / "tekken_240911.json"
    return tokens.Tekkenizer.from_file(data)


def counted(text: str) -> int:
    return len(tekken().encode(text, bos=False, eos=False))  # type: ignore[attr-defined]


@pytest.mark.parametrize("language", LONG)
def test_an_estimate_is_near_what_a_real_tokenizer_counts(language: str) -> None:
    """The error that is stated is that of a page; one sentence, however often said, may be further off."""
    text = LONG[language] * 20
    assert text_tokens(text, family_of("mistral-large-latest")) == pytest.approx(counted(text), rel=0.3)


@pytest.mark.parametrize(
    "name", ["providers/token_counts.py", "providers/models/catalog.toml", "transcript/render.py"]
)
def test_source_code_is_estimated_as_well(name: str) -> None:
    family, text = family_of("mistral-large-latest"), (SOURCE / name).read_text()
    assert text_tokens(text, family) == pytest.approx(counted(text), rel=family.error)


@given(st.text())
def test_any_text_has_a_finite_estimate_that_grows_with_it(text: str) -> None:
    for family in families():
        tokens = text_tokens(text, family)
        assert 0.0 <= tokens <= 5 * len(text.encode("utf-8", "replace"))
        assert text_tokens(text + " word", family) > tokens


def test_every_family_has_weights_and_every_model_a_family() -> None:
    assert all(weights_of(family) for family in families())
    assert [family_of(name).name for name in ("gpt-5", "anthropic/claude-opus-5", "whatever")] == [
        "gpt",
        "claude",
        "other",
    ]


@given(conversations(DIALECTS["openai_chat"].rules), st.integers(0, 100))
def test_what_was_estimated_before_makes_no_difference(conversation: Conversation, cut: int) -> None:
    estimator = Estimator()
    part = Conversation(conversation.messages[:cut], conversation.system)
    estimator.estimate(asking(part))
    assert estimator.estimate(asking(conversation)) == Estimator().estimate(asking(conversation))
    assert estimator.estimate(asking(part)) == Estimator().estimate(asking(part))


def test_a_conversation_that_grew_costs_only_what_is_new() -> None:
    said = "word " * 20_000
    conversation = Conversation((user(said), model(said)) * 50)  # 10 MB
    estimator = Estimator()
    started = time.perf_counter()
    before = estimator.estimate(asking(conversation))
    all_of_it = time.perf_counter() - started
    grown = conversation.append(user("And now?"))
    started = time.perf_counter()
    after = estimator.estimate(asking(grown))
    the_rest = time.perf_counter() - started
    assert 0 < after - before < 20
    assert the_rest < all_of_it / 20


def test_reported_usage_corrects_later_estimates_of_the_same_model() -> None:
    estimator, request = Estimator(), asking(Conversation((user("word " * 1000),)))
    first = estimator.estimate(request)
    estimator.correct(request, first * 2)
    assert estimator.estimate(request) == pytest.approx(first * 2, rel=0.01)
    other = asking(request.conversation, "gpt-5")
    assert estimator.estimate(other) == first
    estimator.correct(request, first)
    assert estimator.estimate(request) == first, "the last report decides alone"


def test_absurd_reports_do_not_spoil_estimates() -> None:
    estimator, request = Estimator(), asking(Conversation((user("word " * 1000),)))
    first = estimator.estimate(request)
    estimator.correct(asking(request.conversation, "another"), 10)
    estimator.correct(request, 0)
    assert estimator.estimate(request) == first
    estimator.correct(request, first * 1000)
    assert estimator.estimate(request) <= first * 4 + 1


def test_images_documents_calls_results_and_tools_are_counted() -> None:
    plain = Conversation((user("Look."),))
    base = estimate_request(asking(plain), family_of("gpt-4.1"))
    big = b64encode(bytes(400_000)).decode()
    said = {
        "image": (Conversation((user("Look.", Media("image", "image/png", "AAAA")),)), 900),
        "document": (Conversation((user("Look.", Media("document", "application/pdf", big)),)), 9_000),
        "call": (plain.append(model(ToolCall("", "look", {"what": "x"}))), 10),
        "result": (plain.append(tool(ToolResult("c0", "look", output={"found": list(range(100))}))), 150),
        "strange": (plain.append(tool(ToolResult("c0", "look", output={1: object()}))), 10),
    }
    for what, (conversation, least) in said.items():
        assert estimate_request(asking(conversation), family_of("gpt-4.1")) >= base + least, what
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    offered = asking(plain, "gpt-4.1", ToolSpec("look", "Look something up.", schema))
    assert estimate_request(offered, family_of("gpt-4.1")) >= base + 20
