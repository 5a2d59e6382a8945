"""Stored content: a gateway that is started again shows what was said before; the file has no word of it in the clear."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from inspector.story import KEY, TURNS, Session, inspected_gateway, tell_story
from segue.gateway.memory.installation_key import InstallationKey
from segue.inspector.record.content_file import ContentFile, RequestOnDisk
from segue.inspector.record.records import RequestRecord

_WORDS = ("off by one cent", "ROUND_HALF_UP", "refund.py", "sk-ant-a-key", "claude-opus")


def _stored(name: str, conversation: str = "c1", text: str = "hello", number: int = 1) -> RequestOnDisk:
    body = {"model": "m", "messages": [{"role": "user", "content": text * 100}], "tools": ["t" * 500]}
    return RequestOnDisk(
        record=RequestRecord(
            id=name, conversation=conversation, caller="local", wire="anthropic", number=number
        ),
        title="A title",
        folder="~/src",
        client=json.dumps(body).encode(),
        provider=None,
        answer=None,
    )


class _Clock:
    def __init__(self) -> None:
        self.now = 1_770_000_000.0

    def __call__(self) -> float:
        return self.now


def _file(path: Path, clock: _Clock, *, key: InstallationKey = KEY, max_bytes: int = 1 << 20) -> ContentFile:
    return ContentFile(path, key, keep_seconds=1000, max_bytes=max_bytes, clock=clock)


def test_after_a_restart_the_pages_show_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "inspector.db"
    with inspected_gateway(content="store", content_file=path) as stage:
        agent = tell_story(stage)
        session = Session(stage)
        here = f"/c/{agent.conversation}"
        before = session.json(f"{here}.json"), session.json(f"{here}/requests.json")["requests"]
        bodies = [session.get(f"/r/{one['id']}?raw=provider")[2] for one in before[1]]
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert not [word for word in _WORDS if word.encode() in file.read_bytes()]
    with inspected_gateway(content="store", content_file=path) as stage:
        session = Session(stage)
        after = session.json(f"{here}/requests.json")["requests"]
        assert [one["id"] for one in after] == [one["id"] for one in before[1]]
        assert session.json(f"{here}.json")["conversation"]["dollars"] == before[0]["conversation"]["dollars"]
        assert [session.get(f"/r/{one['id']}?raw=provider")[2] for one in after] == bodies
        page = session.get(here)[2].decode()
        assert all(text.split(".")[0] in page for text in TURNS) and "interrupted" in page
        cache = session.get(f"{here}/cache")[2].decode()
        assert "miss: the tool list changed" in cache and "first differing byte" in cache
        listed = session.json("/index.json")["conversations"]
        assert [one["title"] for one in listed] == [before[0]["conversation"]["title"]]
        assert "known after the next request" in session.get(f"{here}/as")[2].decode()


def test_pieces_that_repeat_are_stored_once(tmp_path: Path) -> None:
    file = _file(tmp_path / "i.db", _Clock())
    file.add([_stored(f"r{number}", number=number) for number in range(50)])
    assert (tmp_path / "i.db").stat().st_size + (tmp_path / "i.db-wal").stat().st_size < 50 * 1000 * 4
    found = file.load(1 << 20)
    assert [one.record.id for one in found] == [f"r{number}" for number in range(50)]
    assert {one.client for one in found} == {_stored("r").client}
    assert (found[0].title, found[0].folder, found[0].provider) == ("A title", "~/src", None)


def test_what_was_not_used_for_long_is_deleted(tmp_path: Path) -> None:
    clock = _Clock()
    file = _file(tmp_path / "i.db", clock)
    file.add([_stored("old", "c1")])
    clock.now += 900
    file.add([_stored("new", "c2")])
    clock.now += 200
    assert [one.record.id for one in file.load(1 << 20)] == ["new"]
    clock.now += 2000
    assert file.load(1 << 20) == []


def test_the_oldest_go_first_where_there_is_too_much(tmp_path: Path) -> None:
    clock = _Clock()
    file = _file(tmp_path / "i.db", clock, max_bytes=3000)
    for number in range(6):
        clock.now += 1
        file.add([_stored(f"r{number}", f"c{number}", f"text {number} ")])
    left = [one.record.id for one in file.load(1 << 20)]
    assert left and left == [f"r{number}" for number in range(6)][-len(left) :] and len(left) < 6
    assert file.load(100) == []


def test_another_key_reads_nothing_and_a_file_that_fails_is_left_alone(tmp_path: Path) -> None:
    clock, path = _Clock(), tmp_path / "i.db"
    file = _file(path, clock)
    file.add([_stored("r1")])
    file.close()
    assert _file(path, clock, key=InstallationKey(b"x" * 32)).load(1 << 20) == []
    path.write_bytes(b"no database at all" * 100)
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    broken = _file(path, clock)
    assert broken.load(1 << 20) == []
    broken.add([_stored("r2")])
