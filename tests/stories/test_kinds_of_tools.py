"""Every kind of tool in one batch: of an MCP server, built in, refused, and a subagent; on every wire."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from segue.chat.subagent import subagent_tool
from segue.sessions.stores.memory import MemoryStore
from segue.tools.approval import Approval
from segue.tools.builtin import builtin_tools
from segue.tools.mcp.servers import McpServers
from stories.world import NAMES, World, weather

pytestmark = pytest.mark.timeout(60)
SERVER = str(Path(__file__).parent.parent / "tools" / "mcp_server.py")


@pytest.mark.requirement("REQ-915-029", "REQ-915-031")
def test_tools_of_every_kind_run_in_one_batch_and_every_wire_reads_their_results(
    world: World, tmp_path: Path
) -> None:
    async def main() -> None:
        servers = {"mcpServers": {"sums": {"command": sys.executable, "args": [SERVER, "stdio"]}}}
        approval = Approval("auto-edit", allow=["mcp__sums__add", "explore", "weather"])
        async with McpServers.from_json(servers) as opened:
            offered = await opened.tools()
            for number, name in enumerate(NAMES):
                root, store = tmp_path / str(number), MemoryStore()
                root.mkdir()
                explore = subagent_tool("explore", "Looks around.", NAMES[number - 1], tools=[weather])
                tools = [*offered, *builtin_tools(root, outputs=tmp_path / "kept"), explore]
                async with world.chat(name, tools=tools, approval=approval, store=store) as chat:
                    answer = await chat.send("use every tool")
                    assert (answer.error, answer.finish) == (None, "complete")
                    ends = {call.call.name: call.result for call in chat.ledger.values()}
                    assert (root / "notes.txt").read_text() == "rain"
                    assert "3" in str(ends["mcp__sums__add"])
                    assert ends["run_shell"] is not None
                    assert ends["run_shell"].reason == "denied"
                    assert ends["explore"] is not None
                    assert str(ends["explore"].output).startswith("I know")
                    (child,) = await store.find(parent=chat.id)
                    assert child.model == NAMES[number - 1]

    asyncio.run(main())
    assert world.refusals() == []
