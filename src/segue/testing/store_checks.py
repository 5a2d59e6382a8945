"""What every store of journals must do, as a suite that its author can run.

    async def make_store() -> Store: ...        # each call: another connection to the same, at first empty, place
    await check_store(make_store)

`make_store` is called several times in each check, so that fences are tried between two real connections. For a
store that lives in one process only it may return the same object. A check that fails says what was expected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias
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
    UserSaid,
)
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import new_session_id, this_process
from segue.sessions.leases.owners import Owner
from segue.sessions.stores.store import Store

if TYPE_CHECKING:
    from segue.sessions.leases.lease import Lease

MakeStore: TypeAlias = Callable[[], Awaitable[Store]]
Check: TypeAlias = Callable[["Stores"], Coroutine[None, None, None]]

BIG: Final = 5_000_000
_ELSEWHERE: Final = "host.of.somebody.else"


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
    lease = await _new(store)
    for number in range(1, 21):
        last = await _append(store, lease, _entry(number))
        _same(last, number + 1, "the number of the last entry")
    records = await store.read(lease.session)
    _same([record.seq for record in records], list(range(1, 22)), "the numbers of the entries")
    _same([record.entry for record in records[1:]], [_entry(n) for n in range(1, 21)], "the entries")
    times = [record.at for record in records]
    _same(times, sorted(times), "times that never go back")
    after = await store.read(lease.session, after=15)
    _same([record.seq for record in after], list(range(16, 22)), "the entries after 15")
    _same(await store.read(lease.session, after=21), [], "nothing after the last")


async def what_was_acknowledged_is_there_after_reopening(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    await _append(store, lease, _entry(1), _entry(2))
    await store.release(lease)
    again = await stores.open()
    records = await again.read(lease.session)
    _same([record.entry for record in records[1:]], [_entry(1), _entry(2)], "the entries after reopening")
    claimed = await again.claim(lease.session, this_process())
    _same(await _append(again, claimed, _entry(3)), 4, "the next number after reopening")


async def an_unknown_session_is_reported(stores: Stores) -> None:
    store = await stores.open()
    missing = new_session_id()
    await _refused("unknown_session", store.read(missing))
    await _refused("unknown_session", store.claim(missing, this_process()))
    await _refused("unknown_session", store.delete(missing))


async def an_id_is_given_once(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    await _refused(
        "session_exists", store.create(lease.session, EncodedEntry.of(SessionStarted()), this_process())
    )
    _same(len(await store.read(lease.session)), 1, "the first session unchanged")


async def several_entries_are_written_all_or_none(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    nonsense: Any = object()
    refused = False
    try:
        await store.append(lease, [EncodedEntry.of(_entry(1)), EncodedEntry(_entry(2), nonsense)])
    except Exception:  # whatever the store says about it: what counts is what it kept
        refused = True
    _true(refused, "an entry that cannot be written is refused")
    _same(len(await store.read(lease.session)), 1, "nothing of the refused entries")
    _same(await _append(store, lease, _entry(1), _entry(2), _entry(3)), 4, "the next number after a refusal")
    _same(len(await store.read(lease.session)), 4, "all of the accepted entries")


async def a_session_that_is_open_elsewhere_is_busy(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    lease = await _new(store, owner=_somebody(4711))
    error = await _refused("session_busy", other.claim(lease.session, this_process()))
    for part in (_ELSEWHERE, "4711", "--take-over", "--fork"):
        _true(part in str(error), f"the refusal names {part!r}: {error}")
    await _refused("session_busy", other.delete(lease.session))
    await store.renew(lease)
    await store.release(lease)
    claimed = await other.claim(lease.session, this_process())
    _true(claimed.epoch > lease.epoch, "a later epoch for the next owner")


async def a_session_of_a_dead_process_is_free_at_once(stores: Stores) -> None:
    store = await stores.open()
    alive = this_process()
    if not alive.born:  # this system does not report when a process began
        return
    # The same pid in another boot: pids are used again.
    dead = Owner(alive.host, alive.pid, uuid4().hex, "0:0:0")
    lease = await _new(store, owner=dead)
    claimed = await store.claim(lease.session, alive)
    _true(claimed.epoch > lease.epoch, "a later epoch for the next owner")
    await _refused("fenced", _append(store, lease, _entry(1)))


async def a_stale_owner_is_fenced_off(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    stale = await _new(store, owner=_somebody(1))
    await _append(store, stale, _entry(1))
    lease = await other.claim(stale.session, _somebody(2), take_over=True)
    await _refused("fenced", _append(store, stale, _entry(2)))
    await _refused("fenced", store.renew(stale))
    await store.release(stale)  # harmless: it is no longer its to give
    _same(await _append(other, lease, _entry(3)), 3, "the next number of the new owner")
    await _refused("fenced", _append(store, stale, _entry(4)))
    entries = [record.entry for record in await store.read(stale.session)]
    _same(entries[1:], [_entry(1), _entry(3)], "only what owners wrote")


async def a_released_lease_is_worth_nothing(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    await store.release(lease)
    await store.release(lease)
    await _refused("fenced", _append(store, lease, _entry(1)))
    await _refused("fenced", store.renew(lease))


async def owners_who_take_over_from_each_other_leave_no_gaps(stores: Stores) -> None:
    first = await stores.open()
    connections = [first, *[await stores.open() for _ in range(3)]]
    session = (await _new(first)).session
    acknowledged: list[int] = []
    epochs: list[int] = []

    async def write(store: Store, pid: int) -> None:
        for _ in range(5):
            lease = await store.claim(session, _somebody(pid), take_over=True)
            epochs.append(lease.epoch)
            try:
                for number in range(3):
                    acknowledged.append(await _append(store, lease, _entry(number)))
                    await asyncio.sleep(0)
            except JournalError as error:
                _same(error.code, "fenced", "the only reason to refuse")

    await asyncio.gather(*(write(store, pid) for pid, store in enumerate(connections)))
    records = await first.read(session)
    _same([record.seq for record in records], list(range(1, len(records) + 1)), "no gaps")
    _same(sorted(acknowledged), list(range(2, len(records) + 1)), "every number acknowledged once")
    _same(len(set(epochs)), len(epochs), "an epoch for each claim")


async def tasks_may_write_at_the_same_time(stores: Stores) -> None:
    store = await stores.open()
    leases = [await _new(store) for _ in range(4)]
    numbers = await asyncio.gather(
        *(_append(store, lease, _entry(number)) for number in range(10) for lease in leases)
    )
    _same(sorted(numbers), sorted(number for number in range(2, 12) for _ in leases), "each number once")
    for lease in leases:
        said = [record.entry for record in await store.read(lease.session)][1:]
        _same(len(said), 10, "ten entries in each session")


async def big_entries_are_kept_whole(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    big = CallEnded(ToolResult("c0", "read", "x" * BIG + "é"))
    await _append(store, lease, CallsScheduled((ToolCall("c0", "read", {}),)), big)
    records = await store.read(lease.session)
    _true(records[-1].entry == big, "a result of 5 MB comes back as it was")


async def any_text_is_kept(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store, SessionStarted(title="lone \ud83d half", system="nul \x00"))
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
    await _append(store, lease, *entries)
    records = await store.read(lease.session)
    for record, entry in zip(records[1:], entries, strict=True):
        _same(record.entry, entry, "the text as it was written")
    infos = await store.find()
    _true(any(info.id == lease.session for info in infos), "the session in the list")


async def the_list_describes_sessions(stores: Stores) -> None:
    store = await stores.open()
    start = SessionStarted(model="one/a", title="", directory="/somewhere", system="Be brief.")
    lease = await _new(store, start)
    other = await _new(store)
    await _append(store, other, _entry(1))
    question = UserSaid(Message("user", (Text("  How does the\nFOX jump?  "),)), "two/b")
    await _append(store, lease, question, ModelReplied(Message("model", (Text("Very HIGHLY."),))))
    await _append(store, lease, SettingsChanged(title="Foxes & ÖLE"))
    infos = await store.find(limit=1000)
    mine = [info for info in infos if info.id in (lease.session, other.session)]
    _same([info.id for info in mine], [lease.session, other.session], "the last used first")
    info = mine[0]
    shown = (info.title, info.model, info.directory, info.first_words, info.turns, info.entries)
    _same(
        shown, ("Foxes & ÖLE", "two/b", "/somewhere", "How does the FOX jump?", 1, 4), "what the list shows"
    )
    _true(info.created <= info.updated, "created before updated")
    _same(info.holder, lease.owner, "who has it open")
    await store.release(lease)
    for text in ("foxes &", "öle", "the fox", "highly"):
        found = [info.id for info in await store.find(text=text)]
        _same(found, [lease.session], f"what a search for {text!r} finds")
    _same(await store.find(text=uuid4().hex), [], "nothing for unknown words")
    _same(await store.find(text="%"), [], "no wildcards")
    _same(len(await store.find(limit=1)), 1, "no more than asked for")
    (info,) = [info for info in await store.find(limit=1000) if info.id == lease.session]
    _same(info.holder, None, "nobody has it open")


async def an_adopted_history_is_listed_and_found(stores: Stores) -> None:
    store = await stores.open()
    lease = await _new(store)
    said = (Message("user", (Text("Where is Quito?"),)), Message("model", (Text("In Ecuador."),)))
    await _append(store, lease, Adopted(conversation=Conversation(said), source="a file"))
    (info,) = await store.find(text="ecuador")
    _same((info.id, info.first_words, info.turns), (lease.session, "Where is Quito?", 1), "what is shown")


async def subagents_belong_to_their_parents(stores: Stores) -> None:
    store = await stores.open()
    parent = await _new(store)
    link = Link(parent.session, call="c0", seq=3)
    child = await _new(store, SessionStarted(parent=link))
    grandchild = await _new(store, SessionStarted(parent=Link(child.session, call="c1")))
    fork = await _new(store, SessionStarted(parent=Link(parent.session, seq=1)))
    listed = {info.id for info in await store.find(limit=1000)}
    _true(listed >= {parent.session, fork.session}, "sessions and forks in the list")
    _same(listed & {child.session, grandchild.session}, set(), "no subagents in the list")
    children = await store.find(parent=parent.session)
    _same({info.id for info in children}, {child.session, fork.session}, "what comes from the parent")
    _true(link in [info.parent for info in children], "the link to the call")
    await store.release(parent)
    await _refused("session_busy", store.delete(parent.session))
    for lease in (child, grandchild):
        await store.release(lease)
    await store.delete(parent.session)
    for lease in (parent, child, grandchild):
        await _refused("unknown_session", store.read(lease.session))
    _same(len(await store.read(fork.session)), 1, "a fork outlives what it was forked from")


async def a_deleted_session_is_gone(stores: Stores) -> None:
    store, other = await stores.open(), await stores.open()
    lease = await _new(store)
    await _append(store, lease, UserSaid(Message("user", (Text("zanzibar"),))))
    await store.release(lease)
    await other.delete(lease.session)
    await _refused("unknown_session", store.read(lease.session))
    await _refused("fenced", _append(store, lease, _entry(1)))
    await store.release(lease)
    _same(await store.find(text="zanzibar"), [], "nothing of it in the search")
    again = await store.create(lease.session, EncodedEntry.of(SessionStarted()), this_process())
    await _refused("fenced", _append(other, lease, _entry(1)))
    _same(await _append(store, again, _entry(1)), 2, "a new session under the old id")


CHECKS: Final[tuple[Check, ...]] = (
    what_is_appended_is_read_back_in_order,
    what_was_acknowledged_is_there_after_reopening,
    an_unknown_session_is_reported,
    an_id_is_given_once,
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


async def _new(store: Store, started: SessionStarted | None = None, *, owner: Owner | None = None) -> Lease:
    encoded = EncodedEntry.of(started or SessionStarted())
    return await store.create(new_session_id(), encoded, owner or this_process())


async def _append(store: Store, lease: Lease, *entries: Entry) -> int:
    return await store.append(lease, [EncodedEntry.of(entry) for entry in entries])


def _somebody(pid: int) -> Owner:
    """An owner on another host, of which nobody here can know whether it lives."""
    return Owner(_ELSEWHERE, pid, uuid4().hex)


def _entry(number: int) -> Entry:
    return UserSaid(Message("user", (Text(f"message {number}"),)))


def _same(got: object, expected: object, what: str) -> None:
    if got != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {got!r}")


def _true(held: bool, what: str) -> None:  # noqa: FBT001 - an assertion
    if not held:
        raise AssertionError(what)


async def _refused(code: str, doing: Awaitable[object]) -> JournalError:
    try:
        got = await doing
    except JournalError as error:
        _same(error.code, code, "the code of the refusal")
        return error
    raise AssertionError(f"expected JournalError `{code}`, got {got!r}")
