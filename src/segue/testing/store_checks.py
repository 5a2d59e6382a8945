"""What every store of journals must do, as a suite that its author can run.

    async def make_store() -> Store: ...        # each call: another connection to the same, at first empty, place
    await check_store(make_store)

`make_store` is called several times in each check, so that fences are tried between two real connections. For a
store that lives in one process only it may return the same object. A check that fails says what was expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import uuid4

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.errors import JournalError
from segue.sessions.entries import (
    Adopted,
    CallEnded,
    CallsScheduled,
    Entry,
    Link,
    ModelReplied,
    NoteAdded,
    SessionStarted,
    SettingsChanged,
    TurnEnded,
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import new_session_id
from segue.sessions.leases import Owner, this_process
from segue.sessions.stores.store import Store

if TYPE_CHECKING:
    from segue.sessions.leases import Lease


ELSEWHERE: Final = "host.of.somebody.else"


async def begin(store: Store, started: SessionStarted | None = None, *, owner: Owner | None = None) -> Lease:
    encoded = EncodedEntry.of(started or SessionStarted())
    return await store.create(new_session_id(), encoded, owner or this_process())


async def append(store: Store, lease: Lease, *entries: Entry) -> int:
    return await store.append(lease, [EncodedEntry.of(entry) for entry in entries])


def somebody(pid: int) -> Owner:
    """An owner on another host, of which nobody here can know whether it lives."""
    return Owner(ELSEWHERE, pid, uuid4().hex)


def entry(number: int) -> Entry:
    return UserSaid(Message("user", (Text(f"message {number}"),)))


def expect_same(got: object, expected: object, what: str) -> None:
    if got != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {got!r}")


def expect(held: bool, what: str) -> None:  # noqa: FBT001 - an assertion
    if not held:
        raise AssertionError(what)


async def expect_refusal(code: str, doing: Awaitable[object]) -> JournalError:
    try:
        got = await doing
    except JournalError as error:
        expect_same(error.code, code, "the code of the refusal")
        return error
    raise AssertionError(f"expected JournalError `{code}`, got {got!r}")


MakeStore: TypeAlias = Callable[[], Awaitable[Store]]
Check: TypeAlias = Callable[["Stores"], Coroutine[None, None, None]]
BIG: Final = 5_000_000


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


class Stores:
    """As many connections to one place as a check needs, closed when it is over."""

    def __init__(self, make_store: MakeStore) -> None:
        self._make_store = make_store
        self._stack = AsyncExitStack()

    async def open(self) -> Store:
        store = await self._make_store()
        self._stack.push_async_callback(store.close)
        return store

    async def __aenter__(self) -> Stores:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


async def check_store(make_store: MakeStore) -> None:
    """Run every check. Raises AssertionError with the name of the check and what it expected."""
    for check in CHECKS:
        await run_check(check, make_store)


async def run_check(check: Check, make_store: MakeStore) -> None:
    async with Stores(make_store) as stores:
        try:
            await check(stores)
        except AssertionError as error:
            name = check.__name__.replace("_", " ")
            raise AssertionError(f"{name}: {error}") from error


async def what_is_appended_is_read_back_in_order(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    for number in range(1, 21):
        last = await append(store, lease, entry(number))
        expect_same(last, number + 1, "the number of the last entry")
    records = await store.read(lease.session)
    expect_same([record.seq for record in records], list(range(1, 22)), "the numbers of the entries")
    expect_same([record.entry for record in records[1:]], [entry(n) for n in range(1, 21)], "the entries")
    times = [record.at for record in records]
    expect_same(times, sorted(times), "times that never go back")
    after = await store.read(lease.session, after=15)
    expect_same([record.seq for record in after], list(range(16, 22)), "the entries after 15")
    expect_same(await store.read(lease.session, after=21), [], "nothing after the last")


async def what_was_acknowledged_is_there_after_reopening(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    await append(store, lease, entry(1), entry(2))
    await store.release(lease)
    again = await stores.open()
    records = await again.read(lease.session)
    expect_same([record.entry for record in records[1:]], [entry(1), entry(2)], "the entries after reopening")
    claimed = await again.claim(lease.session, this_process())
    expect_same(await append(again, claimed, entry(3)), 4, "the next number after reopening")


async def an_unknown_session_is_reported(stores: Stores) -> None:
    store = await stores.open()
    missing = new_session_id()
    await expect_refusal("unknown_session", store.read(missing))
    await expect_refusal("unknown_session", store.claim(missing, this_process()))
    await expect_refusal("unknown_session", store.delete(missing))


async def a_session_from_elsewhere_keeps_its_times(stores: Stores) -> None:
    store = await stores.open()
    session = new_session_id()
    more = [
        EncodedEntry.of(entry(1)),
        EncodedEntry.of(TurnEnded()),
        EncodedEntry.of(entry(2)),
        EncodedEntry.of(TurnEnded()),
    ]
    times = [1_000_000_000.25 + 7 * number for number in range(5)]
    started = EncodedEntry.of(SessionStarted(title="before"))
    lease = await store.create(session, started, this_process(), more=more, times=times)
    expect_same([record.at for record in await store.read(session)], times, "the times of the entries")
    (info,) = [info for info in await store.find(limit=1000) if info.id == session]
    expect_same(info.created, times[0], "when it began")
    expect(times[3] <= info.updated <= times[4], f"when it was used last: {info.updated}")
    expect_same(await append(store, lease, entry(3)), 6, "the next number")
    after = (await store.read(session))[-1].at
    expect(after > times[-1], f"an entry of its own has its own time: {after}")


async def an_id_is_given_once(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    await expect_refusal(
        "session_exists", store.create(lease.session, EncodedEntry.of(SessionStarted()), this_process())
    )
    expect_same(len(await store.read(lease.session)), 1, "the first session unchanged")


async def a_session_begins_with_all_of_its_first_entries_or_not_at_all(stores: Stores) -> None:
    store = await stores.open()
    session = new_session_id()
    more = [EncodedEntry.of(entry(1)), EncodedEntry.of(entry(2))]
    started, nonsense = EncodedEntry.of(SessionStarted()), cast("bytes", object())
    with suppress(Exception):  # whatever the store reports: what counts is what it kept
        await store.create(session, started, this_process(), more=[*more, EncodedEntry(entry(3), nonsense)])
    await expect_refusal("unknown_session", store.claim(session, this_process()))
    await store.create(session, started, this_process(), more=more)
    records = await store.read(session)
    expect_same([record.entry for record in records[1:]], [entry(1), entry(2)], "the first entries")
    expect_same(await store.salvage(session), records, "what is salvaged of a session that is whole")


async def several_entries_are_written_all_or_none(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    nonsense: Any = object()
    refused = False
    try:
        await store.append(lease, [EncodedEntry.of(entry(1)), EncodedEntry(entry(2), nonsense)])
    except Exception:  # whatever the store says about it: what counts is what it kept
        refused = True
    expect(refused, "an entry that cannot be written is refused")
    expect_same(len(await store.read(lease.session)), 1, "nothing of the refused entries")
    expect_same(
        await append(store, lease, entry(1), entry(2), entry(3)), 4, "the next number after a refusal"
    )
    expect_same(len(await store.read(lease.session)), 4, "all of the accepted entries")


async def a_session_that_is_open_elsewhere_is_busy(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    lease = await begin(store, owner=somebody(4711))
    error = await expect_refusal("session_busy", other.claim(lease.session, this_process()))
    for part in (ELSEWHERE, "4711", "--take-over", "--fork"):
        expect(part in str(error), f"the refusal names {part!r}: {error}")
    await expect_refusal("session_busy", other.delete(lease.session))
    await store.renew(lease)
    await store.release(lease)
    claimed = await other.claim(lease.session, this_process())
    expect(claimed.epoch > lease.epoch, "a later epoch for the next owner")


async def a_session_of_a_dead_process_is_free_at_once(stores: Stores) -> None:
    store = await stores.open()
    alive = this_process()
    if not alive.born:  # this system does not report when a process began
        return
    # The same pid in another boot: pids are used again.
    dead = Owner(alive.host, alive.pid, uuid4().hex, "0:0:0")
    lease = await begin(store, owner=dead)
    claimed = await store.claim(lease.session, alive)
    expect(claimed.epoch > lease.epoch, "a later epoch for the next owner")
    await expect_refusal("fenced", append(store, lease, entry(1)))


async def a_stale_owner_is_fenced_off(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    stale = await begin(store, owner=somebody(1))
    await append(store, stale, entry(1))
    lease = await other.claim(stale.session, somebody(2), take_over=True)
    await expect_refusal("fenced", append(store, stale, entry(2)))
    await expect_refusal("fenced", store.renew(stale))
    await store.release(stale)  # harmless: it is no longer its to give
    expect_same(await append(other, lease, entry(3)), 3, "the next number of the new owner")
    await expect_refusal("fenced", append(store, stale, entry(4)))
    entries = [record.entry for record in await store.read(stale.session)]
    expect_same(entries[1:], [entry(1), entry(3)], "only what owners wrote")


async def a_released_lease_is_worth_nothing(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    await store.release(lease)
    await store.release(lease)
    await expect_refusal("fenced", append(store, lease, entry(1)))
    await expect_refusal("fenced", store.renew(lease))


async def owners_who_take_over_from_each_other_leave_no_gaps(stores: Stores) -> None:
    first = await stores.open()
    connections = [first, *[await stores.open() for _ in range(3)]]
    session = (await begin(first)).session
    acknowledged: list[int] = []
    epochs: list[int] = []

    async def write(store: Store, pid: int) -> None:
        for _ in range(5):
            lease = await store.claim(session, somebody(pid), take_over=True)
            epochs.append(lease.epoch)
            try:
                for number in range(3):
                    acknowledged.append(await append(store, lease, entry(number)))
                    await asyncio.sleep(0)
            except JournalError as error:
                expect_same(error.code, "fenced", "the only reason to refuse")

    await asyncio.gather(*(write(store, pid) for pid, store in enumerate(connections)))
    records = await first.read(session)
    expect_same([record.seq for record in records], list(range(1, len(records) + 1)), "no gaps")
    expect_same(sorted(acknowledged), list(range(2, len(records) + 1)), "every number acknowledged once")
    expect_same(len(set(epochs)), len(epochs), "an epoch for each claim")


async def tasks_may_write_at_the_same_time(stores: Stores) -> None:
    store = await stores.open()
    leases = [await begin(store) for _ in range(4)]
    numbers = await asyncio.gather(
        *(append(store, lease, entry(number)) for number in range(10) for lease in leases)
    )
    expect_same(
        sorted(numbers), sorted(number for number in range(2, 12) for _ in leases), "each number once"
    )
    for lease in leases:
        said = [record.entry for record in await store.read(lease.session)][1:]
        expect_same(len(said), 10, "ten entries in each session")


async def big_entries_are_kept_whole(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store)
    big = CallEnded(ToolResult("c0", "read", "x" * BIG + "é"))
    await append(store, lease, CallsScheduled((ToolCall("c0", "read", {}),)), big)
    records = await store.read(lease.session)
    expect(records[-1].entry == big, "a result of 5 MB comes back as it was")


async def any_text_is_kept(stores: Stores) -> None:
    store = await stores.open()
    lease = await begin(store, SessionStarted(title="lone \ud83d half", system="nul \x00"))
    texts = [
        "naïve ✓ 🦊",
        'quotes " and \\',
        "nul \x00 end",
        "lines\r\n\u2028\u2029\x85",
        "lone \ud800 half",
        "\udfff",
    ]
    entries: list[Entry] = [UserSaid(Message("user", (Text(text),))) for text in texts]
    entries.append(NoteAdded(Message("user", tuple(Text(text) for text in texts))))
    await append(store, lease, *entries)
    records = await store.read(lease.session)
    expect_same([record.entry for record in records[1:]], entries, "the texts as they were written")
    infos = await store.find()
    expect(any(info.id == lease.session for info in infos), "the session in the list")


async def a_deleted_session_is_gone(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    lease = await begin(store)
    await append(store, lease, UserSaid(Message("user", (Text("zanzibar"),))))
    await store.release(lease)
    await other.delete(lease.session)
    await expect_refusal("unknown_session", store.read(lease.session))
    await expect_refusal("fenced", append(store, lease, entry(1)))
    await store.release(lease)
    expect_same(await store.find(text="zanzibar"), [], "nothing of it in the search")
    again = await store.create(lease.session, EncodedEntry.of(SessionStarted()), this_process())
    await expect_refusal("fenced", append(other, lease, entry(1)))
    expect_same(await append(store, again, entry(1)), 2, "a new session under the old id")


CHECKS: Final[tuple[Check, ...]] = (
    what_is_appended_is_read_back_in_order,
    what_was_acknowledged_is_there_after_reopening,
    an_unknown_session_is_reported,
    an_id_is_given_once,
    a_session_from_elsewhere_keeps_its_times,
    a_session_begins_with_all_of_its_first_entries_or_not_at_all,
    empty_and_failed_sessions_are_listed_only_when_asked_for,
    several_entries_are_written_all_or_none,
    a_session_that_is_open_elsewhere_is_busy,
    a_session_of_a_dead_process_is_free_at_once,
    a_stale_owner_is_fenced_off,
    a_released_lease_is_worth_nothing,
    owners_who_take_over_from_each_other_leave_no_gaps,
    tasks_may_write_at_the_same_time,
    big_entries_are_kept_whole,
    any_text_is_kept,
    the_list_describes_sessions,
    an_adopted_history_is_listed_and_found,
    subagents_belong_to_their_parents,
    a_deleted_session_is_gone,
)
