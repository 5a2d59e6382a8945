"""A replay takes shortcuts where an entry obviously fits, and the lines of a file are read once where all are whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.conversation.message import user
from segue.errors import JournalError
from segue.sessions.entries import Entry, Record, SessionStarted, TurnEnded, UserSaid
from segue.sessions.journal import Journal
from segue.sessions.state import _APPLY, State, refuse_misfits, replay
from segue.sessions.stores.jsonl import JsonlStore, read_lines, read_records
from sessions.entry_samples import happenings


def test_every_kind_of_entry_has_its_way_into_the_state() -> None:
    assert set(_APPLY) == set(get_args(Entry))


def checked_in_full(entries: list[Entry]) -> State | str:
    """The state, or the code of the error."""
    state = State()
    try:
        for seq, entry in enumerate(entries, 1):
            refuse_misfits(state, (entry,))
            state.apply(seq, entry)
    except JournalError as error:
        return error.code
    return state


def replayed(entries: list[Entry]) -> State | str:
    try:
        return replay(Record(seq, 0.0, entry) for seq, entry in enumerate(entries, 1))
    except JournalError as error:
        return error.code


@settings(max_examples=60)
@given(entries=happenings(), data=st.data())
def test_a_shortcut_takes_what_the_full_check_takes_and_nothing_else(
    entries: list[Entry], data: st.DataObject
) -> None:
    assert replayed(entries) == checked_in_full(entries)
    for _ in range(4):  # one is lost, or stands elsewhere
        wrong = list(entries)
        moved = wrong.pop(data.draw(st.integers(0, len(wrong) - 1)))
        if data.draw(st.booleans()):
            wrong.insert(data.draw(st.integers(0, len(wrong))), moved)
        assert replayed(wrong) == checked_in_full(wrong)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":3', b'"seq":4'),
        (b"question 2", b"question 9"),
        (b'"checksum":"', b'"checksum":"f'),
        (b"}\n", b"} \n"),
        (b'{"seq":5', b'\n{"seq":5'),
        (b"\n", b""),
    ],
)
def test_whatever_is_unusual_about_a_file_is_looked_at_line_by_line(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    async def write() -> Path:
        store = JsonlStore(tmp_path)
        journal = await Journal.start(store, SessionStarted(), "s")
        for number in range(3):
            await journal.append(UserSaid(user(f"question {number}")), TurnEnded())
        await journal.close()
        await store.close()
        return tmp_path / "s.jsonl"

    file = asyncio.run(write())
    records = read_records(file)
    assert records is not None
    assert (
        [record.seq for record in records]
        == [line.seq for line in read_lines(file).lines]
        == [1, 2, 3, 4, 5, 6, 7]
    )
    data = file.read_bytes()
    file.write_bytes(data[: -len(data.splitlines()[-1]) - 1])
    assert read_records(file) is None, "its last write is not whole"
    at = data.rindex(old)
    file.write_bytes(data[:at] + new + data[at + len(old) :])
    assert read_records(file) is None
