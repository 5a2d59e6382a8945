"""The official Python client of each wire, reading replies over loopback as any program would."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any, TypeAlias

from msgspec import Struct

HI = [{"role": "user", "content": "hi"}]


class Read(Struct):
    """What a program sees of a reply."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, Any]] = []
    """Id, name and arguments."""
    finish: str = ""
    usage: tuple[int | None, int | None] = (None, None)


Reader: TypeAlias = Callable[[bool], Read]


class Canned:
    """The one answer that the server gives to everything."""

    def __init__(self) -> None:
        self.body = b""
        self.type = "application/json"


@contextmanager
def loopback() -> Iterator[tuple[str, Canned]]:
    canned = Canned()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # the name is the library's
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-type", canned.type)
            self.send_header("content-length", str(len(canned.body)))
            self.end_headers()
            self.wfile.write(canned.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", canned
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def readers(url: str) -> Iterator[dict[str, Reader]]:
    """A reader for each wire; called with whether the reply is a stream."""
    with ExitStack() as stack:
        openai = stack.enter_context(
            import_module("openai").OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        )
        anthropic = stack.enter_context(
            import_module("anthropic").Anthropic(api_key="k", base_url=url, max_retries=0)
        )
        genai: Any = import_module("google.genai")
        options = genai.types.HttpOptions(base_url=url)
        gemini = stack.enter_context(genai.Client(api_key="k", http_options=options))
        mistral = stack.enter_context(import_module("mistralai.client").Mistral(api_key="k", server_url=url))
        ollama = stack.enter_context(import_module("ollama").Client(host=url))
        yield {
            "openai_chat": lambda stream: _chat(openai, stream=stream),
            "openai_responses": lambda stream: _responses(openai, stream=stream),
            "anthropic": lambda stream: _anthropic(anthropic, stream=stream),
            "gemini": lambda stream: _gemini(gemini, stream=stream),
            "mistral": lambda stream: _mistral(mistral, stream=stream),
            "ollama": lambda stream: _ollama(ollama, stream=stream),
        }


def _chat(client: Any, *, stream: bool) -> Read:
    read = Read()
    if not stream:
        whole = client.chat.completions.create(model="m", messages=HI)
        message = whole.choices[0].message
        read.text = message.content or message.refusal or ""
        read.reasoning = getattr(message, "reasoning_content", None) or ""
        read.calls = [
            (call.id, call.function.name, _parsed(call.function.arguments))
            for call in message.tool_calls or ()
        ]
        read.finish = "content_filter" if message.refusal else whole.choices[0].finish_reason
        read.usage = _counts(whole.usage, "prompt_tokens", "completion_tokens")
        return read
    calls: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(model="m", messages=HI, stream=True):
        if chunk.usage is not None:
            read.usage = _counts(chunk.usage, "prompt_tokens", "completion_tokens")
        for choice in chunk.choices:
            read.text += choice.delta.content or ""
            read.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            read.finish = choice.finish_reason or read.finish
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, ["", "", ""])
                call[0] += piece.id or ""
                call[1] += piece.function.name or ""
                call[2] += piece.function.arguments or ""
    read.calls = [(call[0], call[1], _parsed(call[2])) for call in calls.values()]
    return read


def _responses(client: Any, *, stream: bool) -> Read:
    if stream:
        with client.responses.stream(model="m", input="hi") as events:
            for event in events:
                if event.type in ("response.completed", "response.incomplete"):
                    whole = event.response
    else:
        whole = client.responses.create(model="m", input="hi")
    read = Read(usage=_counts(whole.usage, "input_tokens", "output_tokens"))
    for item in whole.output:
        if item.type == "message":
            read.text += "".join(
                str(getattr(part, "text", None) or getattr(part, "refusal", "")) for part in item.content
            )
        elif item.type == "reasoning":
            read.reasoning += "".join(part.text for part in item.summary)
        elif item.type == "function_call":
            read.calls.append((item.call_id, item.name, _parsed(item.arguments)))
    reasons = {"max_output_tokens": "length", "content_filter": "content_filter"}
    if whole.status == "incomplete":
        read.finish = reasons[whole.incomplete_details.reason]
    else:
        parts = [part.type for item in whole.output if item.type == "message" for part in item.content]
        read.finish = "tool_calls" if read.calls else "content_filter" if "refusal" in parts else "stop"
    return read


def _anthropic(client: Any, *, stream: bool) -> Read:
    asked = {"model": "m", "max_tokens": 10, "messages": HI}
    if stream:
        with client.messages.stream(**asked) as events:
            whole = events.get_final_message()
    else:
        whole = client.messages.create(**asked)
    reasons = {
        "end_turn": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "content_filter",
    }
    read = Read(finish=reasons.get(whole.stop_reason, "stop"))
    cached = (whole.usage.cache_read_input_tokens or 0) + (whole.usage.cache_creation_input_tokens or 0)
    fresh, output = _counts(whole.usage, "input_tokens", "output_tokens")
    read.usage = (None if fresh is None else fresh + cached, output)
    for block in whole.content:
        if block.type == "text":
            read.text += block.text
        elif block.type == "thinking":
            read.reasoning += block.thinking
        elif block.type == "tool_use":
            read.calls.append((block.id, block.name, block.input))
    return read


def _gemini(client: Any, *, stream: bool) -> Read:
    asked = {"model": "m", "contents": "hi"}
    chunks = (
        client.models.generate_content_stream(**asked)
        if stream
        else [client.models.generate_content(**asked)]
    )
    reasons = {"STOP": "stop", "OTHER": "stop", "MAX_TOKENS": "length"}
    read = Read()
    for chunk in chunks:
        for candidate in chunk.candidates or ():
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.function_call is not None:
                    call = part.function_call
                    read.calls.append((call.id, call.name, call.args or {}))
                elif part.text and part.thought:
                    read.reasoning += part.text
                elif part.text:
                    read.text += part.text
            if candidate.finish_reason is not None:
                read.finish = reasons.get(candidate.finish_reason.value, "content_filter")
        if (counts := chunk.usage_metadata) is not None and counts.total_token_count is not None:
            thoughts = counts.thoughts_token_count
            output = counts.candidates_token_count
            read.usage = (
                counts.prompt_token_count,
                None if output is None and thoughts is None else (output or 0) + (thoughts or 0),
            )
    if read.calls and read.finish == "stop":
        read.finish = "tool_calls"
    return read


def _mistral(client: Any, *, stream: bool) -> Read:
    read = Read()
    asked = {"model": "m", "messages": HI}
    if stream:
        chunks = [event.data for event in client.chat.stream(**asked)]
        messages = [(choice.delta, choice.finish_reason) for chunk in chunks for choice in chunk.choices]
        counted = [chunk.usage for chunk in chunks if chunk.usage]
    else:
        whole = client.chat.complete(**asked)
        messages = [(whole.choices[0].message, whole.choices[0].finish_reason)]
        counted = [whole.usage]
    for message, finish in messages:
        read.finish = str(finish) if isinstance(finish, str) else read.finish
        content = message.content or ""
        for chunk in [content] if isinstance(content, str) else content:
            if isinstance(chunk, str):
                read.text += chunk
            elif chunk.type == "thinking":
                read.reasoning += "".join(part.text for part in chunk.thinking)
            else:
                read.text += chunk.text
        for call in message.tool_calls or ():
            arguments = call.function.arguments
            read.calls.append(
                (call.id, call.function.name, _parsed(arguments) if isinstance(arguments, str) else arguments)
            )
    if counted:
        read.usage = _counts(counted[-1], "prompt_tokens", "completion_tokens")
    return read


def _ollama(client: Any, *, stream: bool) -> Read:
    read = Read()
    answer = client.chat(model="m", messages=HI, stream=stream)
    for line in answer if stream else [answer]:
        read.text += line.message.content or ""
        read.reasoning += line.message.thinking or ""
        # The client drops ids; they are compared on the wire.
        read.calls += [
            ("", call.function.name, dict(call.function.arguments)) for call in line.message.tool_calls or ()
        ]
        if line.done:
            read.finish = "length" if line.done_reason == "length" else "stop"
            read.usage = (line.prompt_eval_count, line.eval_count)
    return read


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _counts(usage: Any, read: str, written: str) -> tuple[int | None, int | None]:
    return (None, None) if usage is None else (getattr(usage, read), getattr(usage, written))
