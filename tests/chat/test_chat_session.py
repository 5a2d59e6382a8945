"""Opening and closing, also at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from segue.chat.chat import Chat
from segue.providers.scripted import ScriptedProvider, says
from segue.sessions.stores.sqlite import SQLiteStore


def test_a_chat_that_is_used_while_it_closes_opens_again_and_does_not_refuse_itself(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("First."), says("Second."), says("Third.")])
        store = SQLiteStore(tmp_path / "sessions.db")
        chat = Chat("scripted/m", store=store, session="s", providers={"scripted": provider})
        assert (await chat.send("Hello?")).text == "First."
        _, answer = await asyncio.gather(chat.close(), chat.send("Still there?"))
        assert answer.text == "Second."
        assert (await chat.send("And now?")).text == "Third."
        assert len(chat.conversation.messages) == 6
        await chat.close()
        await store.close()

    asyncio.run(main())
