"""What a client writes anew into each system prompt goes to its own provider only: elsewhere no cache would ever fit."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayWorld

BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=00001;"


@pytest.mark.parametrize(("wire", "kept"), [("chat", False), ("gemini", False), ("anthropic", True)])
def test_a_line_that_changes_with_each_request_goes_to_its_own_wire_only(wire: str, *, kept: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(model=ROUTES[wire])
        body: dict[str, Any] = {"model": "any", "max_tokens": 9}
        body["system"] = [{"type": "text", "text": BILLING}, {"type": "text", "text": "Be brief."}]
        body["messages"] = [{"role": "user", "content": "Hello"}]
        reply = await world.ask("/v1/messages", body)
        assert reply.status == 200
        (asked,) = world.asked(ROUTES[wire])
        sent = json.dumps(asked.body)
        assert "Be brief." in sent
        assert ("billing" in sent) == kept

    asyncio.run(main())
