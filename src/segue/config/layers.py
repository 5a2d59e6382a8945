"""Settings from several places, merged key by key: the user's file, the project's, the environment, and --set.

A later place holds over an earlier one. Every value knows where it comes from.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Struct

from segue.config.paths import project_directories, project_file, user_file
from segue.config.schema import Config
from segue.config.toml_lines import SettingPath, line_of, lines_of
from segue.config.trust import is_trusted, judged_settings
from segue.config.validation import NOT_BY_TYPE, ConfigFault, config_faults
from segue.errors import UsageError
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ENVIRONMENT_PREFIX = "SEGUE_"
_MOST_BYTES = 1 << 20
"""Of one file: a project could have a huge one."""
_MOST_NAMED = 8
"""Settings that one line names."""
NOT_SETTINGS = frozenset({"CONFIG", "DEBUG", "GATEWAY_KEY", "HUB", "INSTALLATION_KEY", "MODELS"})
"""Variables of ours that name no setting: a file, a switch, a caller's key, the key of the installation, and where the weights of local models come
from and go."""


_KEY_WORD = re.compile(r"""[^."']+|"[^"]*"|'[^']*'""")
"""Quotes hold names with dots together."""


@final
class Layer(Struct, frozen=True):
    """Settings from one place."""

    name: str
    """For people: a file, the environment, or --set."""
    table: dict[str, Any]
    text: str = ""
    """Of a file: its lines are counted when one is named."""
    project: bool = False
    trusted: bool = True
    """Of a project: the user trusts the file as it was read."""
    places: dict[SettingPath, str] = {}
    """SettingPath → variable or flag, where there are no lines."""

    def place(self, path: SettingPath) -> str:
        line = line_of(path, lines_of(self.text))
        near = next((self.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.places), "")
        return f"{self.name}:{line}" if line else near or self.name


@final
class Settings(Struct, frozen=True):
    """The settings that hold, and where each of them comes from."""

    config: Config
    layers: tuple[Layer, ...]
    """The one that holds over the others comes last."""
    ignored: tuple[str, ...] = ()
    """What a project that is not trusted has set in vain, one line for each file."""
    trusts_project: bool = False
    """There is a project file, and the user trusts it."""
    folders: tuple[Path, ...] = ()
    """Of the project, the nearest first; none where no files are read."""

    def origin(self, path: SettingPath) -> str:
        """Where a value comes from; `default` if nobody set it."""
        return next(
            (layer.place(path) for layer in reversed(self.layers) if has(layer.table, path)), "default"
        )

    def origin_near(self, path: SettingPath) -> str:
        """Where a value comes from, or the section that lacks it."""
        inner = next((path[:n] for n in range(len(path), 0, -1) if self.origin(path[:n]) != "default"), path)
        return self.origin(inner)


def load_settings(
    *,
    directory: Path | None = None,
    sets: Sequence[str] = (),
    bare: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Read all places. Raises one UsageError `config` that names every fault. `bare` reads no files."""
    environment = os.environ if environment is None else environment
    folders = () if bare else tuple(project_directories(directory or Path.cwd()))
    return _settled(
        (*_files(folders), _from_environment(environment), *([_from_flags(sets)] if sets else ())), folders
    )


def given_settings(
    given: Mapping[str, Any] | str | os.PathLike[str] | None,
    *,
    defaults: dict[str, Any],
    above: dict[str, Any],
) -> Settings:
    """Settings of a program of its own: a table, or a TOML file, over its `defaults`. No other place is read. `above` holds over
    both. Raises like `load_settings`."""
    held = (
        Layer("config", _plain_table(given))
        if isinstance(given, Mapping) or given is None
        else _from_file(Path(given))
    )
    return _settled((Layer("default", defaults), held, Layer("arguments", above)))


def _plain_table(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        key: _plain_table(value) if isinstance(value, Mapping) else value
        for key, value in (given or {}).items()
    }


def _settled(layers: tuple[Layer, ...], folders: tuple[Path, ...] = ()) -> Settings:
    trusts_project = any(layer.project and layer.trusted for layer in layers)
    layers = tuple(layer for layer in layers if layer.table)
    faults = [f"{layer.place(fault.path)}: {fault}" for layer in layers for fault in _layer_faults(layer)]
    if any("providers" in layer.table for layer in layers):
        faults += _provider_faults(layers)
    if faults:
        raise config_error(faults)
    ignored = tuple(line for layer in layers if not layer.trusted and (line := _ignored_line(layer)))
    layers = tuple(layer if layer.trusted else _before_trust(layer) for layer in layers)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer.table) if merged else layer.table
    held = tuple(layer for layer in layers if layer.table)
    return Settings(msgspec.convert(merged, Config), held, ignored, trusts_project, folders)


def config_error(faults: Sequence[str]) -> UsageError:
    count = (
        "The configuration has an error"
        if len(faults) == 1
        else f"The configuration has {len(faults)} errors"
    )
    return UsageError(
        f"{count}:\n" + "\n".join(f"  {fault}" for fault in faults),
        code="config",
        hint="Show which files are read: segue config path. A chat or an answer without them: segue --bare",
    )


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables as one; where both have a value, `above` holds. Lists are replaced, not joined."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def has(table: Mapping[str, Any], path: SettingPath) -> bool:
    at: Any = table
    for word in path:
        if not isinstance(at, dict) or word not in at:
            return False
        at = at[word]
    return True


def _layer_faults(layer: Layer) -> Iterator[ConfigFault]:
    try:
        msgspec.convert(layer.table, Config)
        fits = layer.table.keys().isdisjoint(NOT_BY_TYPE)
    except (msgspec.ValidationError, UnicodeError):  # a variable may hold half a character
        fits = False
    if not fits:  # only now: why not, all of it
        yield from config_faults(layer.table)
    if not layer.trusted:
        refused = [path for path, _, verdict in judged_settings(layer.table) if verdict == "refused"]
        if refused:
            yield ConfigFault(
                refused[0],
                f"{_named(refused, layer)} can run programs or send keys elsewhere, so a project must be trusted to set "
                f"{'it' if len(refused) == 1 else 'them'}.",
                "Read the file, then: segue trust",
            )


def _named(settings: Sequence[SettingPath], layer: Layer) -> str:
    """The first of these settings with their lines, and how many there are besides."""
    lines = lines_of(layer.text)
    shown: list[str] = []
    for path in settings[:_MOST_NAMED]:
        line = line_of(path, lines)
        shown.append(".".join(path) + (f" (line {line})" if line else ""))
    more = [f"and {len(settings) - len(shown)} more"] if len(settings) > len(shown) else []
    return ", ".join([*shown, *more])


def _before_trust(layer: Layer) -> Layer:
    """A project that is not trusted keeps what the table of trust allows."""
    table: dict[str, Any] = {}
    for path, value, verdict in judged_settings(layer.table):
        if verdict == "allowed":
            put(table, path, value)
    return msgspec.structs.replace(layer, table=table)


def _ignored_line(layer: Layer) -> str:
    """Of a project that is not trusted; empty if nothing of it is ignored."""
    named: list[SettingPath] = []
    for path, value, verdict in judged_settings(layer.table):
        if verdict == "ignored":  # of a table of settings, each name in it
            named += [(*path, name) for name in value] if isinstance(value, dict) and value else [path]
    if not named:
        return ""
    return (
        f"{layer.name}: the file is not trusted, so this part of it is ignored: {_named(named, layer)}. "
        "To use it, read the file, then: segue trust"
    )


def _provider_faults(layers: tuple[Layer, ...]) -> Iterator[str]:
    """Of the sections as they hold together: an address may be in one file and the rest in another."""
    providers: dict[str, Any] = {}
    for layer in layers:
        section = layer.table.get("providers")
        providers = merge(providers, section) if isinstance(section, dict) else providers
    from segue.providers.config import read_provider_config  # noqa: PLC0415 - knows all dialects

    settings = Settings(Config(), layers)
    for name, table in providers.items():
        if not isinstance(table, dict):
            continue
        for problem in read_provider_config(name, table, os.environ)[1]:
            inner = problem.field.removeprefix(f"providers.{name}.")
            place = settings.origin_near(("providers", name, *inner.split(".")))
            yield f"{place}: {problem.field}: {problem.message} {problem.hint}".rstrip()


def _files(folders: Sequence[Path]) -> Iterator[Layer]:
    if not folders:
        return
    user, project = user_file(), project_file(folders)
    if user.is_file():
        yield _from_file(user)
    elif "SEGUE_CONFIG" in os.environ:
        raise config_error([f"{user}: SEGUE_CONFIG names this file, but it does not exist."])
    if project is not None and project.resolve() != user.resolve():  # SEGUE_CONFIG may name it
        yield _from_file(project, project=True)


def _from_file(file: Path, *, project: bool = False) -> Layer:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise config_error([f"{file}: it cannot be read: {error.strerror}."]) from error
    if len(data) > _MOST_BYTES:
        raise config_error([f"{file}: it is longer than {_MOST_BYTES} bytes."])
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise config_error([f"{file}: not TOML: {error}"]) from error
    trusted = not project or is_trusted(file, data)
    return Layer(str(file), table, text, project=project, trusted=trusted)


def _from_environment(environment: Mapping[str, str]) -> Layer:
    """`SEGUE_MODEL`, `SEGUE_UI__MARKDOWN`: two underscores stand for a dot."""
    table: dict[str, Any] = {}
    places: dict[SettingPath, str] = {}
    for name in sorted(environment):
        words = name.removeprefix(ENVIRONMENT_PREFIX)
        if not name.startswith(ENVIRONMENT_PREFIX) or words in NOT_SETTINGS:
            continue
        path = tuple(word.lower() for word in words.split("__"))
        if path[0] in Config.__struct_fields__ or suggestion(path[0], Config.__struct_fields__):
            put(table, path, parse_value(environment[name]))
            places[path] = name
    return Layer("the environment", table, places=places)


def _from_flags(sets: Iterable[str]) -> Layer:
    table: dict[str, Any] = {}
    places: dict[SettingPath, str] = {}
    for assignment in sets:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(
                f'--set "{assignment}" is not KEY=VALUE.',
                code="bad_set",
                hint="For example: --set ui.markdown=false",
            )
        path = split_key(name)
        put(table, path, parse_value(value))
        places[path] = f"--set {name.strip()}"
    return Layer("--set", table, places=places)


def split_key(name: str) -> SettingPath:
    """The words of `a.b."c.d"`."""
    return tuple(word.strip("\"'") for word in _KEY_WORD.findall(name.strip())) or (name.strip(),)


def put(table: dict[str, Any], path: SettingPath, value: Any) -> None:
    for word in path[:-1]:
        inner = table.get(word)
        if not isinstance(inner, dict):
            inner = table[word] = {}
        table = inner
    table[path[-1]] = value


def parse_value(text: str) -> Any:
    """A value as TOML writes it; what TOML cannot read is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError, RecursionError):
        return text
