"""What providers say about their limits: requests of clients go elsewhere, and operators see it."""

from __future__ import annotations

import asyncio

from gateway.world import ROUTES, GatewayWorld
from segue.emulators.faults import Fault
from segue.gateway.telemetry.metrics import GatewayMetrics

FOR_AN_HOUR = {"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "3600"}
BODY = {"model": "both", "messages": [{"role": "user", "content": "Hello."}]}


def test_requests_go_to_another_member_while_a_limit_is_used_up_and_metrics_show_it() -> None:
    async def main() -> None:
        members = (ROUTES["anthropic"], ROUTES["chat"])
        world = GatewayWorld(profiles={"both": {"policy": "failover", "members": members}})
        metrics = GatewayMetrics()
        world.emulator.faults.append(Fault(kind="headers", headers=FOR_AN_HOUR))
        for _ in range(3):
            assert (await world.ask("/v1/chat/completions", BODY)).status == 200
        assert len(world.asked(ROUTES["anthropic"])) == 1
        assert len(world.asked(ROUTES["chat"])) == 2
        for report in world.reports:
            metrics.record(report)
        labels = f'kind="requests",route="{ROUTES["anthropic"]}"'
        assert f"segue_headroom_left{{{labels}}} 0.0" in metrics.text().decode()

    asyncio.run(main())
