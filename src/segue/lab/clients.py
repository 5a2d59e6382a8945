"""Clients of a gateway, one per wire: each keeps its history as the programs of that wire do, in that wire's own
form, adds each reply as it came, and knows no other."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""One pixel."""
PDF = base64.b64encode(
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
).decode()
"""One empty page."""
TOOLS: dict[str, dict[str, Any]] = {
    name: {
        "type": "object",
        "properties": {argument: {"type": "string", "description": what}},
        "required": [argument],
        "additionalProperties": False,
    }
    for name, argument, what in (
        ("get_weather", "city", "the city"),
        ("get_time", "city", "the city"),
        ("read_file", "path", "the file"),
    )
}
"""What a scenario can offer to the model."""


class Called(Struct, frozen=True):
    """A call as the client got it."""

    id: str
    name: str
    arguments: str
    """JSON, as the wire had it."""


class UserWords(Struct, frozen=True, kw_only=True):
    """What the user said."""

    text: str
    image: bool = False
    document: bool = False
    cached: bool = False
    """Mark it as the end of what to cache, on a wire with such marks."""


class Given(Struct, frozen=True):
    """What a tool returned for a call."""

    call: Called
    text: str
    failed: bool = False
    """Marked so on a wire with such marks."""


class TokenCounts(Struct, frozen=True):
    """Tokens of a reply, all of the input included."""

    input: int
    output: int
    cached: int = 0


class ClientAnswer(Struct, frozen=True, kw_only=True):
    """What came back for one request."""

    status: int = 200
    text: str = ""
    thoughts: str = ""
    calls: tuple[Called, ...] = ()
    usage: TokenCounts | None = None
    finish: str = ""
    """The wire's own word for how the reply ended; empty if it never said."""
    error: str = ""
    """The wire's own error, or why this is none of its replies."""
    native: Any = None
    """What a client adds to its history."""


class NextRequest(Struct, frozen=True, kw_only=True):
    """What the client wants of the next request, whatever its wire is."""

    model: str
    stream: bool = False
    tools: tuple[str, ...] = ()
    thinking: bool = False
    schema: Mapping[str, Any] | None = None
    refers: bool = False
    """Send the new part alone, with a reference to what came before."""


class LabClient(ABC):
    """A program of one wire."""

    wire: str

    def __init__(self) -> None:
        self.history: list[Any] = []
        self.sent = 0
        """How much of the history went out with earlier requests."""
        self.last: ClientAnswer | None = None

    @abstractmethod
    def path(self, request: NextRequest, /) -> str: ...

    @abstractmethod
    def body(self, request: NextRequest) -> dict[str, Any]: ...

    @abstractmethod
    def say(self, said: UserWords) -> None:
        """Add what the user said."""

    @abstractmethod
    def give(self, results: Sequence[Given]) -> None:
        """Add what the tools returned."""

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        """A whole reply."""

    @abstractmethod
    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer: ...

    def error_of(self, body: Mapping[str, Any]) -> str:
        """The message of this wire's error envelope; empty if it is none. Both wires of OpenAI have this one."""
        error = body.get("error")
        return str(error.get("message") or "") if isinstance(error, dict) else ""

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "authorization": f"Bearer {key}"}

    def take(self, answer: ClientAnswer) -> None:
        """Add a reply to the history."""
        self.last = answer
        if answer.native is not None:
            self.history.append(answer.native)

    def decode(self, status: int, content_type: str, raw: bytes) -> ClientAnswer:
        """Any bytes that a gateway may send."""
        try:
            if "event-stream" in content_type:
                return self.read_stream(list(events_of(raw)))
            body = json.loads(raw)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            return ClientAnswer(status=status, error=f"not a reply of this wire: {error!r}: {raw[:200]!r}")
        if status >= 400:
            words = self.error_of(body) if isinstance(body, dict) else ""
            return ClientAnswer(status=status, error=words or f"not an error of this wire: {raw[:200]!r}")
        try:
            return self.read(body)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            return ClientAnswer(status=status, error=f"not a reply of this wire: {error!r}: {raw[:200]!r}")


class CountingClient(LabClient):
    """A program of a wire that also counts the tokens of a request."""

    @abstractmethod
    def count_path(self, request: NextRequest, /) -> str: ...

    @abstractmethod
    def count_body(self, request: NextRequest, /) -> dict[str, Any]: ...

    @abstractmethod
    def read_count(self, body: Mapping[str, Any]) -> int: ...


def events_of(raw: bytes) -> Iterator[dict[str, Any]]:
    """The events of a stream; an event that is no JSON object is an error."""
    for frame in raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data and data != b"[DONE]":
            event = json.loads(data)
            if not isinstance(event, dict):
                raise TypeError("an event is no object")
            yield event
        elif data:
            yield {"done": True}


def merged(whole: Any, delta: Any) -> Any:
    """Streamed JSON put together: texts are joined, lists by their `index`, objects by key."""
    if isinstance(whole, dict) and isinstance(delta, dict):
        joined = dict(whole)
        for key, value in delta.items():
            fixed = key in ("index", "type", "id", "role", "name") and whole.get(key)
            joined[key] = whole[key] if fixed else merged(whole.get(key), value)
        return joined
    if isinstance(whole, list) and isinstance(delta, list):
        return _merged_lists(whole, delta)
    if isinstance(whole, str) and isinstance(delta, str):
        return whole + delta
    return whole if delta is None else delta


def _merged_lists(whole: list[Any], delta: list[Any]) -> list[Any]:
    joined = list(whole)
    for item in delta:
        index = item.get("index") if isinstance(item, dict) else None
        if isinstance(index, int) and index < len(joined):
            joined[index] = merged(joined[index], item)
        else:
            joined.append(item)
    return joined


class ChatClient(LabClient):
    """Sends its messages with every request."""

    wire = "chat"

    def path(self, _: NextRequest, /) -> str:
        return "/v1/chat/completions"

    def body(self, request: NextRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "messages": self.history}
        if request.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": name, "description": name, "parameters": TOOLS[name]},
                }
                for name in request.tools
            ]
        if request.thinking:
            body["reasoning_effort"] = "medium"
        if request.schema is not None:
            named = {"name": "answer", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def say(self, said: UserWords) -> None:
        content: Any = said.text
        if said.image:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
            content = [{"type": "text", "text": said.text}, picture]
        if said.document:
            file = {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
            content = [{"type": "text", "text": said.text}, {"type": "file", "file": file}]
        self.history.append({"role": "user", "content": content})

    def give(self, results: Sequence[Given]) -> None:
        for given in results:
            self.history.append({"role": "tool", "tool_call_id": given.call.id, "content": given.text})

    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        choice = body["choices"][0]
        return _chat_answer(choice["message"], choice.get("finish_reason") or "", body.get("usage"))

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer:
        message: dict[str, Any] = {}
        finish, usage = "", None
        for event in events:
            if "error" in event:
                return ClientAnswer(
                    text=message.get("content") or "", error=self.error_of(event) or "an error"
                )
            usage = event.get("usage") or usage
            for choice in event.get("choices") or ():
                message = merged(message, choice.get("delta") or {})
                finish = choice.get("finish_reason") or finish
        for call in message.get("tool_calls") or ():
            call.pop("index", None)
        return _chat_answer({"role": "assistant", **message}, finish, usage)


def _chat_answer(message: dict[str, Any], finish: str, usage: Any) -> ClientAnswer:
    calls = [
        Called(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    cached = ((usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return ClientAnswer(
        text=message.get("content") or "",
        thoughts=message.get("reasoning_content") or "",
        calls=tuple(calls),
        usage=TokenCounts(usage["prompt_tokens"], usage["completion_tokens"], cached) if usage else None,
        finish=finish,
        native=message,
    )


class GeminiClient(CountingClient):
    """Keeps the parts of a reply as they came."""

    wire = "gemini"

    def path(self, request: NextRequest, /) -> str:
        verb = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return f"/v1beta/models/{request.model}:{verb}"

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "x-goog-api-key": key}

    def body(self, request: NextRequest) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if request.thinking:
            settings["thinkingConfig"] = {"includeThoughts": True}
        if request.schema is not None:
            settings |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
        body: dict[str, Any] = {"contents": self.history}
        if settings:
            body["generationConfig"] = settings
        if request.tools:
            declared = [
                {"name": name, "description": name, "parametersJsonSchema": TOOLS[name]}
                for name in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        return body

    def say(self, said: UserWords) -> None:
        parts: list[dict[str, Any]] = [{"text": said.text}]
        if said.image:
            parts.append({"inlineData": {"mimeType": "image/png", "data": PNG}})
        if said.document:
            parts.append({"inlineData": {"mimeType": "application/pdf", "data": PDF}})
        self.history.append({"role": "user", "parts": parts})

    def give(self, results: Sequence[Given]) -> None:
        parts = []
        for given in results:
            response: dict[str, Any] = {
                "name": given.call.name,
                "response": {"error" if given.failed else "output": given.text},
            }
            if given.call.id:
                response["id"] = given.call.id
            parts.append({"functionResponse": response})
        self.history.append({"role": "user", "parts": parts})

    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        return self.read_stream([body])

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer:
        parts: list[dict[str, Any]] = []
        finish, usage = "", None
        for event in events:
            if "error" in event:
                text = "".join(part.get("text", "") for part in parts)
                return ClientAnswer(text=text, error=self.error_of(event) or "an error")
            usage = event.get("usageMetadata") or usage
            for candidate in event.get("candidates") or ():
                parts.extend((candidate.get("content") or {}).get("parts") or ())
                finish = candidate.get("finishReason") or finish
        return _gemini_answer(parts, finish, usage)

    def count_path(self, request: NextRequest, /) -> str:
        return f"/v1beta/models/{request.model}:countTokens"

    def count_body(self, _: NextRequest, /) -> dict[str, Any]:
        return {"contents": self.history}

    def read_count(self, body: Mapping[str, Any]) -> int:
        return int(body["totalTokens"])

    def error_of(self, body: Mapping[str, Any]) -> str:
        error = body.get("error")
        if not isinstance(error, dict) or not isinstance(error.get("code"), int) or not error.get("status"):
            return ""
        return str(error.get("message") or "")


def _gemini_answer(parts: list[dict[str, Any]], finish: str, usage: Any) -> ClientAnswer:
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    counted = None
    if usage:
        spoken = (usage.get("candidatesTokenCount") or 0) + (usage.get("thoughtsTokenCount") or 0)
        counted = TokenCounts(
            usage.get("promptTokenCount") or 0, spoken, usage.get("cachedContentTokenCount") or 0
        )
    return ClientAnswer(
        text="".join(part["text"] for part in parts if "text" in part and not part.get("thought")),
        thoughts="".join(part["text"] for part in parts if "text" in part and part.get("thought")),
        calls=tuple(
            Called(call.get("id") or "", call["name"], json.dumps(call.get("args") or {})) for call in calls
        ),
        usage=counted,
        finish=finish,
        native={"role": "model", "parts": parts} if parts else None,
    )


_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "_json"),
}


class MessagesClient(CountingClient):
    """Joins what follows in one role, as the wire asks for."""

    wire = "messages"

    def path(self, _: NextRequest, /) -> str:
        return "/v1/messages"

    def headers(self, key: str) -> dict[str, str]:
        return {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}

    def body(self, request: NextRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "max_tokens": 8000, "messages": self.history}
        if request.stream:
            body["stream"] = True
        if request.tools:
            body["tools"] = [
                {"name": name, "description": name, "input_schema": TOOLS[name]} for name in request.tools
            ]
        if request.thinking:
            body["thinking"] = {"type": "enabled", "budget_tokens": 4000}
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.schema}}
        return body

    def say(self, said: UserWords) -> None:
        content: list[dict[str, Any]] = [{"type": "text", "text": said.text}]
        if said.image:
            source = {"type": "base64", "media_type": "image/png", "data": PNG}
            content.append({"type": "image", "source": source})
        if said.document:
            source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
            content.append({"type": "document", "source": source})
        if said.cached:
            content[-1]["cache_control"] = {"type": "ephemeral"}
        self._add(content)

    def give(self, results: Sequence[Given]) -> None:
        self._add(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": given.call.id,
                    "content": given.text,
                    **({"is_error": True} if given.failed else {}),
                }
                for given in results
            ]
        )

    def _add(self, content: list[dict[str, Any]]) -> None:
        if self.history and self.history[-1]["role"] == "user":
            self.history[-1]["content"].extend(content)
        else:
            self.history.append({"role": "user", "content": content})

    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        return _messages_answer(body["content"], body.get("stop_reason") or "", body.get("usage"))

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer:
        blocks: list[dict[str, Any]] = []
        usage: dict[str, Any] = {}
        finish, ended = "", False
        for event in events:
            match event.get("type"):
                case "error":
                    text = "".join(block.get("text", "") for block in blocks)
                    return ClientAnswer(text=text, error=self.error_of(event) or "an error")
                case "message_start":
                    usage |= event["message"].get("usage") or {}
                case "content_block_start":
                    blocks.append(dict(event["content_block"]))
                case "content_block_delta":
                    source, target = _DELTAS.get(event["delta"]["type"], ("", ""))
                    if target:
                        block = blocks[event["index"]]
                        block[target] = (block.get(target) or "") + event["delta"][source]
                case "message_delta":
                    finish = event["delta"].get("stop_reason") or finish
                    usage |= {name: count for name, count in (event.get("usage") or {}).items() if count}
                case "message_stop":
                    ended = True
        for block in blocks:
            if "_json" in block:
                block["input"] = json.loads(block.pop("_json") or "{}")
        return _messages_answer(blocks, finish if ended else "", usage)

    def count_path(self, _: NextRequest, /) -> str:
        return "/v1/messages/count_tokens"

    def count_body(self, request: NextRequest, /) -> dict[str, Any]:
        body = self.body(request)
        return {name: body[name] for name in ("model", "messages", "tools", "thinking") if name in body}

    def read_count(self, body: Mapping[str, Any]) -> int:
        return int(body["input_tokens"])

    def error_of(self, body: Mapping[str, Any]) -> str:
        error = body.get("error")
        if body.get("type") != "error" or not isinstance(error, dict) or not error.get("type"):
            return ""
        return str(error.get("message") or "")


def _messages_answer(blocks: list[dict[str, Any]], finish: str, usage: Any) -> ClientAnswer:
    counted = None
    if usage and "input_tokens" in usage:
        cached = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        counted = TokenCounts(
            usage["input_tokens"] + cached + written, usage.get("output_tokens") or 0, cached
        )
    return ClientAnswer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        thoughts="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls=tuple(
            Called(block["id"], block["name"], json.dumps(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        usage=counted,
        finish=finish,
        native={"role": "assistant", "content": blocks} if blocks else None,
    )


class ResponsesClient(LabClient):
    """Adds the items of each reply to its input."""

    wire = "responses"

    def path(self, _: NextRequest, /) -> str:
        return "/v1/responses"

    def body(self, request: NextRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": request.model, "input": self.history, "store": False}
        if request.refers:
            body["store"] = True
            if self.last is not None:
                body |= {"input": self.history[self.sent :], "previous_response_id": self.last.native["id"]}
        self.sent = len(self.history)
        if request.stream:
            body["stream"] = True
        if request.tools:
            body["tools"] = [
                {"type": "function", "name": name, "description": name, "parameters": TOOLS[name]}
                for name in request.tools
            ]
        if request.thinking:
            body["reasoning"] = {"effort": "medium", "summary": "auto"}
            if not request.refers:
                body["include"] = ["reasoning.encrypted_content"]
        if request.schema is not None:
            named = {"type": "json_schema", "name": "answer", "strict": True, "schema": request.schema}
            body["text"] = {"format": named}
        return body

    def say(self, said: UserWords) -> None:
        content: list[dict[str, Any]] = [{"type": "input_text", "text": said.text}]
        if said.image:
            content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"})
        if said.document:
            data = f"data:application/pdf;base64,{PDF}"
            content.append({"type": "input_file", "filename": "page.pdf", "file_data": data})
        self.history.append({"type": "message", "role": "user", "content": content})

    def give(self, results: Sequence[Given]) -> None:
        for given in results:
            self.history.append(
                {"type": "function_call_output", "call_id": given.call.id, "output": given.text}
            )

    def take(self, answer: ClientAnswer) -> None:
        self.last = answer
        if answer.native is not None:
            self.history.extend(answer.native["output"])
            self.sent = len(self.history)

    def read(self, body: Mapping[str, Any]) -> ClientAnswer:
        output = body["output"]
        spoken = [part for item in output if item["type"] == "message" for part in item["content"]]
        thoughts = [
            part for item in output if item["type"] == "reasoning" for part in item.get("summary") or ()
        ]
        usage = body.get("usage")
        cached = ((usage or {}).get("input_tokens_details") or {}).get("cached_tokens") or 0
        failed = body.get("error") if body.get("status") == "failed" else None
        return ClientAnswer(
            text="".join(part.get("text", "") for part in spoken),
            thoughts="".join(part.get("text", "") for part in thoughts),
            calls=tuple(
                Called(item["call_id"], item["name"], item["arguments"])
                for item in output
                if item["type"] == "function_call"
            ),
            usage=TokenCounts(usage["input_tokens"], usage["output_tokens"], cached) if usage else None,
            finish=body.get("status") or "",
            error=str(failed.get("message")) if failed else "",
            native={"id": body["id"], "output": output},
        )

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> ClientAnswer:
        text = ""
        for event in events:
            match event.get("type"):
                case "response.output_text.delta":
                    text += event["delta"]
                case "response.completed" | "response.incomplete":
                    return self.read(event["response"])
                case "response.failed":
                    error = event["response"].get("error") or {}
                    return ClientAnswer(text=text, error=str(error.get("message") or "failed"))
                case "error":
                    return ClientAnswer(
                        text=text, error=str(event.get("message") or event.get("error") or "an error")
                    )
        return ClientAnswer(text=text)
