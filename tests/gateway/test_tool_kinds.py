"""Tools that only the Responses wire has, with a model of another wire behind the gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayWorld
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say

TOOLS: list[dict[str, Any]] = [
    {"type": "custom", "name": "apply_patch", "description": "Change files."},
    {
        "type": "namespace",
        "name": "mcp__github",
        "tools": [{"type": "function", "name": "list", "parameters": {"type": "object", "properties": {}}}],
    },
]


class Patcher:
    """Calls both tools, then is done."""

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.results:
            return Reply(pieces=(Say(f"{len(prompt.results)} results."),))
        patch, issues = (tool.name for tool in prompt.tools)
        return Reply(pieces=(Call(patch, {"input": "*** Begin Patch\n"}), Call(issues)))

    def reset(self) -> None:
        """Nothing is remembered."""


@pytest.mark.parametrize("route", ["anthropic", "gemini", "chat"])
def test_custom_and_namespaced_tools_are_called_as_they_were_offered(route: str) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=Patcher())
        asked: list[dict[str, Any]] = [{"role": "user", "content": "Patch it."}]
        body = {"model": ROUTES[route], "input": asked, "tools": TOOLS, "store": False}
        output = (await world.ask("/v1/responses", body)).json()["output"]
        patch, issues = [item for item in output if item["type"].endswith("_call")]
        assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin Patch\n")
        assert (issues["type"], issues["namespace"], issues["name"]) == (
            "function_call",
            "mcp__github",
            "list",
        )
        asked += [
            *output,
            {"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": "done"},
            {"type": "function_call_output", "call_id": issues["call_id"], "output": "none"},
        ]
        reply = (await world.ask("/v1/responses", body)).json()
        assert reply["output"][-1]["content"][0]["text"] == "2 results."
        assert world.refusals() == []

    asyncio.run(main())


def test_a_custom_call_of_any_model_stays_one_where_the_clients_own_provider_answers() -> None:
    class OnePatch(Patcher):
        """Patches once in each turn. OpenAI's emulator offers its model no custom tools."""

        def reply(self, prompt: Prompt) -> Reply:
            if prompt.results or not prompt.tools:
                return Reply(pieces=(Say("Done."),))
            return Reply(pieces=(Call(prompt.tools[0].name, {"input": "*** Begin Patch\n"}),))

    async def main() -> None:
        world = GatewayWorld(responder=OnePatch())
        asked: list[dict[str, Any]] = []
        for route in ("anthropic", "gemini", "responses"):
            asked.append({"role": "user", "content": "Patch it."})
            body = {"model": ROUTES[route], "input": asked, "tools": TOOLS[:1], "store": False}
            for _ in range(1 if route == "responses" else 2):
                reply = await world.ask("/v1/responses", body)
                assert reply.status == 200, reply.body
                output = reply.json()["output"]
                asked += output
                asked += [
                    {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "done"}
                    for item in output
                    if item["type"] == "custom_tool_call"
                ]
        assert world.refusals() == []
        calls = [item for item in world.asked(ROUTES["responses"])[-1].body["input"] if "call_id" in item]
        kinds = ["custom_tool_call", "custom_tool_call_output"]
        assert [item["type"] for item in calls] == kinds * 2

    asyncio.run(main())
