"""Small agents, one per wire, that keep their history as SDKs do: what came back goes into the next request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from gateway.client_streams import whole_of
from gateway.world import GatewayResponse, GatewayWorld

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = "rain in "


class Agent:
    """A conversation on one wire. `turn` runs tools until the model has nothing more to call."""

    wire: ClassVar[str]
    home: ClassVar[str]
    """The model of the wire's own provider, and the provider's address at the emulators."""
    address: ClassVar[str]
    headers: ClassVar[Mapping[str, str]] = {}
    streams_by_field: ClassVar[bool] = True

    def __init__(self, world: GatewayWorld, model: str, *, stream: bool = False) -> None:
        self.world = world
        self.model = model
        self.stream = stream
        self.system = ""
        self.own_headers: Mapping[str, str] = {}
        """Those of this one client, beside those of its wire."""
        self.history: list[Any] = []
        self.replies: list[GatewayResponse] = []
        self.bodies: list[Any] = []

    async def turn(self, text: str) -> str:
        self.add_user(text)
        for _ in range(5):
            reply = await self.send()
            assert reply.status == 200, (reply.status, reply.body)
            whole = self.whole(reply)
            calls = self.add_reply(whole)
            if not calls:
                return self.text(whole)
            self.add_results(
                [(call_id, name, RESULT + arguments["city"]) for call_id, name, arguments in calls]
            )
        raise AssertionError("the turn does not end")

    async def send(self, headers: Mapping[str, str] | None = None) -> GatewayResponse:
        body = {
            **self.body(self.model),
            **({"stream": True} if self.stream and self.streams_by_field else {}),
        }
        self.bodies.append(json.loads(json.dumps(body)))
        sent = {**self.headers, **self.own_headers, **(headers or {})}
        reply = await self.world.ask(self.path(self.model), body, headers=sent)
        self.replies.append(reply)
        return reply

    def whole(self, reply: GatewayResponse) -> Any:
        return whole_of(self.wire, reply.body) if self.stream else reply.json()

    async def at_home(self) -> GatewayResponse:
        """The same history, sent to the wire's own provider without a gateway."""
        headers = {
            "authorization": "Bearer sk-emulated",
            "x-api-key": "sk-emulated",
            "x-goog-api-key": "sk-emulated",
        }
        self.stream = False
        path = self.address + self.path(self.home)
        body = self.body(self.home)
        return await self.world.ask(path, body, headers={**self.headers, **headers}, app=self.world.app)

    def path(self, model: str) -> str:
        raise NotImplementedError

    def body(self, model: str) -> Any:
        raise NotImplementedError

    @property
    def messages(self) -> list[Any]:
        """Those of a wire whose system prompt is a message."""
        return [*([{"role": "system", "content": self.system}] if self.system else ()), *self.history]

    def add_user(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        """Keep the reply; its calls: id, name, arguments."""
        raise NotImplementedError

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        raise NotImplementedError

    def text(self, reply: Any) -> str:
        raise NotImplementedError


class ChatAgent(Agent):
    wire, home, address = "openai_chat", "gpt-4.1", "/openai"
    headers: ClassVar[Mapping[str, str]] = {"user-agent": "OpenAI/Python 3.51.0"}

    def path(self, model: str) -> str:
        return "/v1/chat/completions"

    def body(self, model: str) -> Any:
        function = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
        thinking = {"reasoning_effort": "high"} if not model.endswith(self.home) else {}
        tools = [{"type": "function", "function": function}]
        return {"model": model, "messages": self.messages, "tools": tools, **thinking}

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        message = reply["choices"][0]["message"]
        self.history.append({name: held for name, held in message.items() if held is not None})
        return [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or ()
        ]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        self.history += [{"role": "tool", "tool_call_id": one, "content": text} for one, _, text in results]

    def text(self, reply: Any) -> str:
        return str(reply["choices"][0]["message"]["content"])


class ForgetfulChatAgent(ChatAgent):
    """Returns only what it knows, as most frameworks do."""

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        calls = super().add_reply(reply)
        known = ("role", "content", "tool_calls")
        self.history[-1] = {name: held for name, held in self.history[-1].items() if name in known}
        return calls


class MistralAgent(ChatAgent):
    wire, home, address = "mistral", "mistral-large-latest", "/mistral"
    headers: ClassVar[Mapping[str, str]] = {"user-agent": "mistral-client-python/2"}

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        self.history += [
            {"role": "tool", "tool_call_id": one, "name": name, "content": text}
            for one, name, text in results
        ]


class MessagesAgent(Agent):
    wire, home, address = "anthropic", "claude-sonnet-4-6", "/anthropic"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01", "x-api-key": "any"}

    def path(self, model: str) -> str:
        return "/v1/messages"

    def body(self, model: str) -> Any:
        tool = {"name": "weather", "description": "The weather of a city.", "input_schema": SCHEMA}
        adaptive = model.endswith("claude-opus-4-7")  # it takes no budget
        return {
            "model": model,
            "max_tokens": 4000,
            "thinking": {"type": "adaptive"} if adaptive else {"type": "enabled", "budget_tokens": 2000},
            "messages": self.history,
            "tools": [tool],
            **({"system": self.system} if self.system else {}),
        }

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        self.history.append({"role": "assistant", "content": reply["content"]})
        return [
            (block["id"], block["name"], block["input"])
            for block in reply["content"]
            if block["type"] == "tool_use"
        ]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        content = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, _, text in results]
        self.history.append({"role": "user", "content": content})

    def text(self, reply: Any) -> str:
        return "".join(block["text"] for block in reply["content"] if block["type"] == "text")


class ResponsesAgent(Agent):
    wire, home, address = "openai_responses", "gpt-5.5", "/openai"

    def path(self, model: str) -> str:
        return "/v1/responses"

    def body(self, model: str) -> Any:
        return {
            "model": model,
            "store": False,
            "reasoning": {"effort": "medium"},
            "include": ["reasoning.encrypted_content"],
            "input": self.history,
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
            **({"instructions": self.system} if self.system else {}),
        }

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        self.history += reply["output"]
        return [
            (item["call_id"], item["name"], json.loads(item["arguments"]))
            for item in reply["output"]
            if item["type"] == "function_call"
        ]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": one, "output": text} for one, _, text in results
        ]

    def text(self, reply: Any) -> str:
        return "".join(
            part["text"] for item in reply["output"] if item["type"] == "message" for part in item["content"]
        )


class GeminiAgent(Agent):
    wire, home, address = "gemini", "gemini-3.5-flash", "/gemini"
    headers: ClassVar[Mapping[str, str]] = {"x-goog-api-key": "any"}

    streams_by_field = False

    def path(self, model: str) -> str:
        return f"/v1beta/models/{model}:" + (
            "streamGenerateContent?alt=sse" if self.stream else "generateContent"
        )

    def body(self, model: str) -> Any:
        declared = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
        return {
            "contents": self.history,
            "tools": [{"functionDeclarations": [declared]}],
            "generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "high"}},
            **({"systemInstruction": {"parts": [{"text": self.system}]}} if self.system else {}),
        }

    def add_user(self, text: str) -> None:
        self.history.append({"role": "user", "parts": [{"text": text}]})

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        content = reply["candidates"][0]["content"]
        self.history.append(content)
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        return [(call.get("id", ""), call["name"], call["args"]) for call in calls]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        parts = [
            {
                "functionResponse": {
                    "name": name,
                    "response": {"output": text},
                    **({"id": one} if one else {}),
                }
            }
            for one, name, text in results
        ]
        self.history.append({"role": "user", "parts": parts})

    def text(self, reply: Any) -> str:
        parts = reply["candidates"][0]["content"]["parts"]
        return "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))


class OllamaAgent(Agent):
    wire, home, address = "ollama", "qwen3", "/ollama"

    def path(self, model: str) -> str:
        return "/api/chat"

    def body(self, model: str) -> Any:
        function = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
        tools = [{"type": "function", "function": function}]
        return {"model": model, "stream": False, "think": "high", "messages": self.messages, "tools": tools}

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        message = reply["message"]
        self.history.append(message)
        return [
            (call.get("id", ""), call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        self.history += [{"role": "tool", "tool_name": name, "content": text} for _, name, text in results]

    def text(self, reply: Any) -> str:
        return str(reply["message"]["content"])


class ConverseAgent(Agent):
    wire, address = "converse", "/bedrock"
    home = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    streams_by_field = False

    def path(self, model: str) -> str:
        return f"/model/{quote(model, safe='')}/converse{'-stream' if self.stream else ''}"

    def body(self, model: str) -> Any:
        spec = {"name": "weather", "description": "The weather of a city.", "inputSchema": {"json": SCHEMA}}
        return {
            "messages": self.history,
            "inferenceConfig": {"maxTokens": 4000},
            "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
            "toolConfig": {"tools": [{"toolSpec": spec}]},
            **({"system": [{"text": self.system}]} if self.system else {}),
        }

    def add_user(self, text: str) -> None:
        self.history.append({"role": "user", "content": [{"text": text}]})

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        message = reply["output"]["message"]
        self.history.append(message)
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        return [(call["toolUseId"], call["name"], call["input"]) for call in calls]

    def add_results(self, results: Sequence[tuple[str, str, str]]) -> None:
        content = [
            {"toolResult": {"toolUseId": one, "content": [{"text": text}]}} for one, _, text in results
        ]
        self.history.append({"role": "user", "content": content})

    def text(self, reply: Any) -> str:
        return "".join(block.get("text", "") for block in reply["output"]["message"]["content"])


AGENTS: Mapping[str, type[Agent]] = {
    agent.wire: agent
    for agent in (
        ChatAgent,
        ResponsesAgent,
        MessagesAgent,
        GeminiAgent,
        OllamaAgent,
        MistralAgent,
        ConverseAgent,
    )
}
