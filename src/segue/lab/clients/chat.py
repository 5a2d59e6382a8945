"""A client of Chat Completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.lab.clients.client import (
    PDF,
    PNG,
    TOOLS,
    Called,
    ClientAnswer,
    Given,
    LabClient,
    NextRequest,
    TokenCounts,
    UserWords,
    merged,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
        return _answer(choice["message"], choice.get("finish_reason") or "", body.get("usage"))

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
        return _answer({"role": "assistant", **message}, finish, usage)


def _answer(message: dict[str, Any], finish: str, usage: Any) -> ClientAnswer:
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
