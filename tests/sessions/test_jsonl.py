"""What is particular to sessions in files of lines."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from pathlib import Path

import pytest

from segue.conversation.message import user
from segue.errors import JournalError
from segue.sessions.entries import SessionStarted, TurnEnded, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import Journal
from segue.sessions.leases import this_process
from segue.sessions.stores.jsonl import JsonlStore

SAID = UserSaid(user("hello ✓"))
ENCODED = EncodedEntry.of(SAID)


async def made(place: Path) -> Path:
    """A session of five entries, the last two written together."""
    store = JsonlStore(place)
    journal = await Journal.start(store, SessionStarted(title="T"), "s")
    await journal.append(SAID)
    await journal.append(TurnEnded())
    await journal.append(SAID, TurnEnded())
    await journal.close()
    await store.close()
    return place / "s.jsonl"


def test_a_session_is_a_file_that_people_and_tools_can_read(tmp_path: Path) -> None:
    file = asyncio.run(made(tmp_path / "new"))
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[1]["entry"]["message"]["blocks"] == [{"type": "text", "text": "hello ✓"}]
    assert [line.get("more") for line in lines] == [None, None, None, 1, None]
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in (tmp_path / "new").iterdir()}
    assert modes == {"s.jsonl": 0o600, "s.lock": 0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_file_that_was_cut_anywhere_keeps_all_that_was_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def main() -> None:
        file = await made(tmp_path)
        data = file.read_bytes()
        ends = [index + 1 for index, byte in enumerate(data) if byte == 0x0A]
        store = JsonlStore(tmp_path)
        for cut in range(ends[0], len(data) + 1):
            file.write_bytes(data[:cut])
            whole = max(number for number, end in enumerate(ends, 1) if end <= cut)
            whole = 3 if whole == 4 else whole  # entries 4 and 5 were written together
            assert len(await store.read("s")) == whole
            assert file.stat().st_size == cut  # a reader changes nothing
            lease = await store.claim("s", this_process())
            assert await store.append(lease, [ENCODED]) == whole + 1
            assert [record.seq for record in await store.read("s")] == list(range(1, whole + 2))
            await store.release(lease)
        await store.close()

    asyncio.run(main())


def test_a_torn_end_is_reported_with_its_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        file = await made(tmp_path)
        file.write_bytes(file.read_bytes()[:-5])
        store = JsonlStore(tmp_path)
        await store.read("s")
        await store.close()

    asyncio.run(main())
    (record,) = caplog.records
    assert "s.jsonl" in record.getMessage()
    assert "never acknowledged" in record.getMessage()


def test_zeros_behind_the_end_are_a_torn_end(tmp_path: Path) -> None:
    async def main() -> None:
        file = await made(tmp_path)
        with file.open("ab") as stream:
            stream.write(bytes(4096))
        store = JsonlStore(tmp_path)
        assert len(await store.read("s")) == 5
        await store.close()

    asyncio.run(main())


def test_damage_in_the_middle_is_told_with_its_line_and_hides_no_other_session(tmp_path: Path) -> None:
    async def main() -> None:
        file = await made(tmp_path)
        lines = file.read_bytes().splitlines(keepends=True)
        lines[2] = b"rubbish\n"
        file.write_bytes(b"".join(lines))
        store = JsonlStore(tmp_path)
        await Journal.start(store, SessionStarted(), "whole")
        with pytest.raises(JournalError) as refused:
            await store.read("s")
        assert refused.value.code == "damaged"
        assert "line 3" in str(refused.value)
        assert {info.id for info in await store.find()} == {"s", "whole"}
        assert file.read_bytes() == b"".join(lines)
        await store.close()

    asyncio.run(main())


def test_a_session_of_a_newer_segue_is_listed_and_not_opened(tmp_path: Path) -> None:
    async def main() -> None:
        file = await made(tmp_path)
        with file.open("ab") as stream:
            stream.write(b'{"seq":6,"at":1.0,"epoch":1,"entry":{"type":"moon_landed"}}\n')
        store = JsonlStore(tmp_path)
        assert [(info.id, info.entries) for info in await store.find()] == [("s", 6)]
        for _ in range(2):  # the failed attempt does not keep it busy
            with pytest.raises(JournalError) as refused:
                await Journal.resume(store, "s")
            assert refused.value.code == "newer_entry"
        await store.close()

    asyncio.run(main())


def test_a_lost_fence_file_lets_no_old_epoch_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        await made(tmp_path)
        store = JsonlStore(tmp_path)
        stale = await store.claim("s", this_process())
        await store.append(stale, [ENCODED])
        (tmp_path / "s.lock").unlink()
        with pytest.raises(JournalError, match="taken over"):
            await store.append(stale, [ENCODED])
        lease = await store.claim("s", this_process())
        assert lease.epoch > stale.epoch
        assert await store.append(lease, [ENCODED]) == 7
        await store.close()

    asyncio.run(main())


def test_a_file_from_elsewhere_is_a_session_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        file = await made(tmp_path / "one")
        (tmp_path / "two").mkdir()
        (tmp_path / "two" / "copied.jsonl").write_bytes(file.read_bytes())
        store = JsonlStore(tmp_path / "two")
        (info,) = await store.find()
        assert (info.id, info.title, info.entries) == ("copied", "T", 5)
        await (await Journal.resume(store, "copied")).close()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("session", ["../outside", "a/b", "", ".hidden", "x" * 101, "nul\0", "-flag"])
def test_no_id_leads_out_of_the_directory(session: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = JsonlStore(tmp_path / "in")
        for doing in (
            store.create(session, EncodedEntry.of(SessionStarted()), this_process()),
            store.claim(session, this_process()),
            store.read(session),
            store.delete(session),
        ):
            with pytest.raises(Exception, match="cannot be the id"):
                await doing
        await store.close()

    asyncio.run(main())
    assert {entry.name for entry in tmp_path.iterdir()} <= {"in"}


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    import resource
    import signal

    async def main() -> None:
        file = await made(tmp_path)
        before = file.read_bytes()
        store = JsonlStore(tmp_path)
        lease = await store.claim("s", this_process())
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
        try:
            with pytest.raises(JournalError) as refused:
                await store.append(lease, [ENCODED])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)
        assert refused.value.code == "store_failed"
        assert file.read_bytes() == before
        assert await store.append(lease, [ENCODED]) == 6
        await store.close()

    asyncio.run(main())
