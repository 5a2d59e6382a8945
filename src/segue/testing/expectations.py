"""What the checks of a store are written with: sessions, owners and entries, and what is expected of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from segue.conversation.blocks import Text
from segue.conversation.message import Message
from segue.errors import JournalError
from segue.sessions.entries import Entry, SessionStarted, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import new_session_id
from segue.sessions.leases import Owner, this_process

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from segue.sessions.leases import Lease
    from segue.sessions.stores.store import Store

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
