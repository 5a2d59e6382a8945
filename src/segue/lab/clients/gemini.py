"""A client of Gemini's generateContent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from segue.lab.clients.client import (
    PDF,
    PNG,
    TOOLS,
    Called,
    ClientAnswer,
    CountingClient,
    Given,
    NextRequest,
    TokenCounts,
    UserWords,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
        return _answer(parts, finish, usage)

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


def _answer(parts: list[dict[str, Any]], finish: str, usage: Any) -> ClientAnswer:
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
