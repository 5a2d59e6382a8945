"""The agent of the gateway's demo: a plain script on Anthropic's wire that knows one address and one model's name."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MODEL: Final = "claude-sonnet-4-6"
"""The name that the agent asks for, always."""
_HEADERS: Final = {
    "content-type": "application/json",
    "anthropic-version": "2023-06-01",
    "x-api-key": "demo",
}


class RefusedError(Exception):
    """The server did not accept a request."""


@final
class GatewayAgent:
    """Sends its history, runs the tools that are called, sends their results, until the model calls none."""

    def __init__(
        self,
        base_url: str,
        tools: Sequence[Mapping[str, Any]],
        run_tool: Callable[[str, Mapping[str, Any]], str],
    ) -> None:
        self.history: list[dict[str, Any]] = []
        self.conversation = ""
        """The gateway's id for it, which only its operator needs."""
        self._base_url = base_url
        self._tools = list(tools)
        self._run_tool = run_tool

    def turn(self, text: str, on_call: Callable[[str, Mapping[str, Any], str], None]) -> str:
        """The answer to a message of the user. Raises RefusedError."""
        self.history.append({"role": "user", "content": text})
        while True:
            reply = self.send(self._base_url)
            content = reply["content"]
            self.history.append({"role": "assistant", "content": content})
            results = []
            for block in content:
                if block["type"] == "tool_use":
                    result = self._run_tool(block["name"], block["input"])
                    on_call(block["name"], block["input"], result)
                    results.append({"type": "tool_result", "tool_use_id": block["id"], "content": result})
            if not results:
                return "".join(block["text"] for block in content if block["type"] == "text")
            self.history.append({"role": "user", "content": results})

    def send(self, base_url: str) -> Any:
        """One request with all of the history."""
        body = {
            "model": MODEL,
            "max_tokens": 4000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "tools": self._tools,
            "messages": self.history,
        }
        address = urlsplit(base_url)
        connection = http.client.HTTPConnection(address.netloc, timeout=60)
        try:
            connection.request("POST", f"{address.path}/v1/messages", json.dumps(body), _HEADERS)
            answer = connection.getresponse()
            data = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise RefusedError(data["error"]["message"])
        self.conversation = answer.headers.get("x-segue-conversation") or self.conversation
        return data
