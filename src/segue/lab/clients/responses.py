"""A client of OpenAI's Responses; it stores nothing, unless it refers to what came before."""

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
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
