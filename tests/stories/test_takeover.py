"""A chat whose machine is gone is taken over on another one after its lease, and no tool runs twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue import Chat, ScriptedProvider
from segue.errors import JournalError
from segue.providers.scripted import calls, says
from segue.sessions import journal
from segue.sessions.leases import Owner, this_process
from sessions.stores_under_test import open_store

LEASE = 1.0


def test_another_machine_takes_a_session_over_after_its_lease_and_runs_no_tool_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def main() -> None:
        begun, resume = asyncio.Event(), asyncio.Event()

        async def deploy() -> str:
            """Deploy."""
            ran.append("deploy")
            begun.set()
            await resume.wait()
            return "done"

        def chat_on(host: str, provider: ScriptedProvider) -> Chat:
            monkeypatch.setattr(journal, "this_process", lambda: _process_on(host))
            store = open_store("postgres", tmp_path, LEASE)
            return Chat(
                "scripted/any", tools=[deploy], providers={"scripted": provider}, store=store, session="s"
            )

        stalled = chat_on("first.example", ScriptedProvider([calls(("deploy", {})), says("Never said.")]))
        async with stalled:
            sending = asyncio.ensure_future(stalled.send("Deploy it."))
            await asyncio.wait_for(begun.wait(), 10)
            second = chat_on("second.example", ScriptedProvider([says("It was interrupted.")]))
            with pytest.raises(JournalError, match=r"first\.example"):
                async with second:
                    pass
            await asyncio.sleep(LEASE + 0.2)
            third = chat_on("third.example", ScriptedProvider([says("It was interrupted.")]))
            async with third:
                (interaction,) = third.ledger.values()
                assert interaction.result is not None
                assert interaction.result.reason == "interrupted"
                await third.send("What happened?")
            resume.set()
            with pytest.raises(JournalError) as refused:
                await sending
            assert refused.value.code == "fenced"
        assert ran == ["deploy"]

    asyncio.run(main())


def _process_on(host: str) -> Owner:
    here = this_process()
    return Owner(host, here.pid, here.token, here.born)
