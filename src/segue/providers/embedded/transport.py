"""Carries a request not to a socket but to the engine in this process: its answer is a stream of the same wire.

The engine is asked in plain messages under a grammar; here tools, calls and results are put into them and taken out.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, final

import msgspec

from segue.dialects import sse
from segue.errors import UsageError
from segue.providers.embedded.forms import FORMS, Offer
from segue.providers.embedded.grammar import Grammar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from segue.providers.embedded.engine import Engine
    from segue.providers.embedded.forms import Delta, Form, FormName, Reader
    from segue.transports.transport import WireRequest, WireResponse

_ENCODER = msgspec.json.Encoder()
_DONE = sse.encode(b"[DONE]")
_END = b'"finish_reason":"'
"""Stands in the piece that ends a reply, and nowhere else: inside of a text its quotes would be escaped."""


@final
class EngineTransport:
    """A transport to the engines of this process; `engine_for` finds the one of a model."""

    def __init__(self, engine_for: Callable[[str], Engine], form: FormName = "json") -> None:
        self._engine_for = engine_for
        self._form = FORMS[form]

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        asked = msgspec.json.decode(request.body)
        offer = offered(asked)
        pieces = self._engine_for(asked["model"]).chat(
            _ENCODER.encode(in_plain_words(asked, offer, self._form))
        )
        try:
            first = await anext(pieces, b"{}")
            status = _status(first)
            if status != 200:
                yield _EngineAnswer(status, _alone(first))
            else:
                yield _EngineAnswer(200, self._told(first, pieces, offer))
        finally:
            await pieces.aclose()

    async def _told(self, first: bytes, rest: AsyncIterator[bytes], offer: Offer) -> AsyncIterator[bytes]:
        hearing = _Hearing(self._form, offer)
        for portion in hearing.take(first):
            yield portion
        async for piece in rest:
            for portion in hearing.take(piece):
                yield portion
        if hearing.ended:  # else it was cut off, and nobody shall take it for whole
            yield _DONE


@final
class _EngineAnswer:
    def __init__(self, status: int, body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._body = body

    def portions(self) -> AsyncIterator[bytes]:
        return self._body

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self._body])


async def _alone(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


def _status(piece: bytes) -> int:
    error = msgspec.json.decode(piece).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) else 500) if error else 200


class _Hearing:
    """Turns the pieces of a reply in plain words into those of a reply with calls."""

    def __init__(self, form: Form, offer: Offer) -> None:
        self._form = form
        self._offer = offer
        self._reader: Reader | None = None
        self._called = False
        self.ended = False

    def take(self, piece: bytes) -> list[bytes]:
        self.ended = self.ended or _END in piece
        if not self._offer.tools:
            return [sse.encode(piece)]
        chunk = msgspec.json.decode(piece)
        choices = chunk.get("choices")
        if not choices or "prompt_progress" in chunk:
            return [sse.encode(piece)]
        if self._reader is None:
            # Nine characters, as the strictest templates want them.
            self._reader = self._form.reader(self._offer, chunk.get("id", "")[-9:])
        choice = choices[0]
        text, finish = choice["delta"].pop("content", None), choice.get("finish_reason")
        deltas = self._reader.feed(text) if text else [choice["delta"]]
        if finish:
            deltas = [*(deltas if text else ()), *self._reader.close()]
            self._called = any("tool_calls" in delta for delta in deltas)
        told = [_with(chunk, delta, None) for delta in deltas]
        if finish:
            told.append(_with(chunk, {}, "tool_calls" if self._called and finish == "stop" else finish))
        return told


def _with(chunk: dict[str, Any], delta: Delta, finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse.encode(_ENCODER.encode({**chunk, "choices": [choice]}))


def offered(asked: Mapping[str, Any]) -> Offer:
    """What a request offers to call, and whether the model is free not to."""
    choice = asked.get("tool_choice", "auto")
    tools = tuple(tool["function"] for tool in asked.get("tools", ()) if "function" in tool)
    if choice == "none":
        tools = ()
    if isinstance(choice, dict):
        named = choice["function"]["name"]
        tools = tuple(tool for tool in tools if tool["name"] == named)
        if not tools:
            raise UsageError(
                f'The model is told to call "{named}", which is not offered.',
                code="tool_not_offered",
                path="options.tool_choice",
                hint="Offer the tool, or choose another.",
            )
    return Offer(tools=tools, must_call=choice not in ("auto", "none"), answer=_answer_schema(asked))


def _answer_schema(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    shape = asked.get("response_format") or {}
    if shape.get("type") == "json_object":
        return {"type": "object"}
    schema: Mapping[str, Any] | None = (shape.get("json_schema") or {}).get("schema")
    return schema


_OURS = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "messages")


def in_plain_words(asked: Mapping[str, Any], offer: Offer, form: Form) -> dict[str, Any]:
    """The same request without tools, calls and results: all is said in the messages and held by a grammar."""
    body = {name: value for name, value in asked.items() if name not in _OURS}
    body["messages"] = _messages(asked["messages"], offer, form)
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    # While it reads a prompt the engine says nothing by itself, and cannot be stopped then.
    body["return_progress"] = True
    if offer.tools:
        body.setdefault("grammar", form.grammar(offer))
    elif offer.answer is not None:
        grammar = Grammar()
        body.setdefault("grammar", grammar.text(grammar.value(offer.answer)))
    return body


def _messages(messages: Sequence[Mapping[str, Any]], offer: Offer, form: Form) -> list[dict[str, Any]]:
    told = _spelt(messages, form if offer.tools else FORMS["json"])
    if offer.tools:
        instructions = form.instructions(offer)
        if told and told[0]["role"] == "system":
            told[0] = {"role": "system", "content": f"{told[0]['content']}\n\n{instructions}"}
        else:
            told.insert(0, {"role": "system", "content": instructions})
    return told


def _spelt(messages: Sequence[Mapping[str, Any]], form: Form) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    results: list[tuple[str, str]] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            results.append((names.get(message["tool_call_id"], "called"), message["content"]))
            continue
        if results:
            told.append({"role": "user", "content": form.results(results)})
            results = []
        calls = message.get("tool_calls") or ()
        names.update((call["id"], call["function"]["name"]) for call in calls)
        if role == "assistant":
            spoken = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
            told.append({"role": role, "content": form.said(message.get("content") or "", spoken)})
        else:
            told.append({"role": role, "content": message["content"]})
    if results:
        told.append({"role": "user", "content": form.results(results)})
    return told
