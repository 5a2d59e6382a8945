"""What the list of sessions of every store must show and find: a part of `store_checks`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

from segue.conversation.blocks import Text
from segue.conversation.message import Conversation, Message
from segue.sessions.entries import (
    Adopted,
    Link,
    ModelReplied,
    SessionStarted,
    SettingsChanged,
    TurnEnded,
    UserSaid,
)
from segue.testing.expectations import append, begin, entry, expect, expect_refusal, expect_same

if TYPE_CHECKING:
    from segue.testing.store_checks import Stores


async def empty_and_failed_sessions_are_listed_only_when_asked_for(stores: Stores) -> None:
    store = await stores.open()
    empty, failed, cancelled, answered = [await begin(store) for _ in range(4)]
    for lease in (failed, cancelled, answered):
        await append(store, lease, entry(1))
    await append(store, failed, TurnEnded("error"))
    await append(store, cancelled, TurnEnded("cancelled"))
    await append(store, answered, TurnEnded("error"), entry(2))
    await append(store, answered, ModelReplied(Message("model", (Text("Yes."),))))
    mine = {lease.session for lease in (empty, failed, cancelled, answered)}
    expect_same(mine & {info.id for info in await store.find(limit=1000)}, mine, "all of them")
    used = {info.id for info in await store.find(used=True, limit=1000)}
    expect_same(mine & used, {cancelled.session, answered.session}, "those in which something happened")


async def the_list_describes_sessions(stores: Stores) -> None:
    store = await stores.open()
    start = SessionStarted(model="one/a", title="", directory="/somewhere", system="Be brief.")
    lease = await begin(store, start)
    other = await begin(store)
    await append(store, other, entry(1))
    await asyncio.sleep(0.002)  # a store may count in milliseconds
    question = UserSaid(Message("user", (Text("  How does the\nFOX jump?  "),)), "two/b")
    await append(store, lease, question, ModelReplied(Message("model", (Text("Very HIGHLY."),))))
    await append(store, lease, SettingsChanged(title="Foxes & ÖLE"))
    infos = await store.find(limit=1000)
    mine = [info for info in infos if info.id in (lease.session, other.session)]
    expect_same([info.id for info in mine], [lease.session, other.session], "the last used first")
    info = mine[0]
    shown = (info.title, info.model, info.directory, info.first_words, info.turns, info.entries)
    expect_same(
        shown, ("Foxes & ÖLE", "two/b", "/somewhere", "How does the FOX jump?", 1, 4), "what the list shows"
    )
    expect(info.created <= info.updated, "created before updated")
    expect_same(info.holder, lease.owner, "who has it open")
    await store.release(lease)
    for text in ("foxes &", "öle", "the fox", "highly"):
        found = [info.id for info in await store.find(text=text)]
        expect_same(found, [lease.session], f"what a search for {text!r} finds")
    expect_same(await store.find(text=uuid4().hex), [], "nothing for unknown words")
    expect_same(await store.find(text="%"), [], "no wildcards")
    expect_same(len(await store.find(limit=1)), 1, "no more than asked for")
    (info,) = [info for info in await store.find(limit=1000) if info.id == lease.session]
    expect_same(info.holder, None, "nobody has it open")


async def an_adopted_history_is_listed_and_found(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    said = (Message("user", (Text("Where is Quito?"),)), Message("model", (Text("In Ecuador."),)))
    await append(store, lease, Adopted(conversation=Conversation(said), source="a file"))
    (info,) = await store.find(text="ecuador")
    expect_same(
        (info.id, info.first_words, info.turns), (lease.session, "Where is Quito?", 1), "what is shown"
    )


async def subagents_belong_to_their_parents(stores: Stores) -> None:
    store = await stores.open()
    parent = await begin(store)
    link = Link(parent.session, call="c0", seq=3)
    child = await begin(store, SessionStarted(parent=link))
    grandchild = await begin(store, SessionStarted(parent=Link(child.session, call="c1")))
    fork = await begin(store, SessionStarted(parent=Link(parent.session, seq=1)))
    listed = {info.id for info in await store.find(limit=1000)}
    expect(listed >= {parent.session, fork.session}, "sessions and forks in the list")
    expect_same(listed & {child.session, grandchild.session}, set(), "no subagents in the list")
    children = await store.find(parent=parent.session)
    expect_same({info.id for info in children}, {child.session, fork.session}, "what comes from the parent")
    expect(link in [info.parent for info in children], "the link to the call")
    await store.release(parent)
    await expect_refusal("session_busy", store.delete(parent.session))
    for lease in (child, grandchild):
        await store.release(lease)
    await store.delete(parent.session)
    for lease in (parent, child, grandchild):
        await expect_refusal("unknown_session", store.read(lease.session))
    expect_same(len(await store.read(fork.session)), 1, "a fork outlives what it was forked from")
