"""What a project's files may do before the user trusts them: one table, and what it does not name is refused.

Trust is given to a file as it is: when it changes, it has to be given again. `segue trust` gives it. What a resumed
session may use again is approved for one session in one folder.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.config.paths import AGENTS, PROJECT_FILES, TEMPLATES, project_directories, trust_file
from segue.errors import UsageError
from segue.system.private_files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from segue.config.paths import NamedFiles
    from segue.config.toml_lines import SettingPath

Verdict: TypeAlias = Literal["allowed", "ignored", "refused"]

MCP_FILE: Final = ".mcp.json"
MOST_SESSIONS: Final = 1_000
"""Approvals of older sessions are forgotten, and asked for again."""
BEFORE_TRUST: Final[Mapping[SettingPath, Verdict]] = {
    # How an answer looks, and nothing else.
    ("ui", "markdown"): "allowed",
    ("ui", "reasoning"): "allowed",
    # The rest of `ui` hides what a turn cost, or names files that are sent to a provider.
    ("ui",): "ignored",
    # Who gets the conversation.
    ("model",): "ignored",
    ("aliases",): "ignored",
    ("profiles",): "ignored",
    ("continue_turns",): "ignored",
    ("providers", "*", "model"): "ignored",
    ("providers", "*", "embedding_model"): "ignored",
    # What the user wrote, or what it may cost, would be replaced.
    ("system",): "ignored",
    ("effort",): "ignored",
    ("options",): "ignored",
    ("limits",): "ignored",
    ("prices",): "ignored",
    ("providers", "*", "timeouts"): "ignored",
}
"""By setting or by the table around it, the longest path first; `*` is any name. Whatever is not here could run programs,
send keys elsewhere or drop a restriction that somebody relies on: it is refused, and so is every new setting."""


@final
class _Trust(Struct):
    """All of the user's file."""

    files: dict[str, str] = {}
    """Path → digest."""
    sessions: dict[str, list[str]] = {}
    """Session and folder → digests of what is approved there; the oldest first."""


def is_trusted(file: Path, data: bytes | None = None) -> bool:
    """Whether the user trusts this file with this content: what was read, or what it holds now."""
    content = file.read_bytes() if data is None else data
    return _read().files.get(str(file.resolve())) == _digest(content)


def read_named(files: NamedFiles, name: str, start: Path, others: Iterable[str] = ()) -> tuple[Path, bytes]:
    """A file and what it holds. Raises UsageError where there is none, or it is of a project and not trusted. `others`:
    names that are known elsewhere."""
    kind, folder, found = files.kind, files.user_folder(), files.find(start)
    if name not in found:
        from segue.text.suggestions import suggestion  # noqa: PLC0415 - only a wrong name needs it

        raise UsageError(
            f'There is no {kind} "{name}".',
            code=f"unknown_{kind}",
            hint=suggestion(name, [*found, *others]) or f"{kind.capitalize()}s are files in {folder}.",
        )
    file = found[name]
    data = file.read_bytes()
    if file.parent != folder and not is_trusted(file, data):
        raise UsageError(
            f"{file} is not trusted, so it is not used.",
            code=f"untrusted_{kind}",
            hint="Read it. To use it: segue trust",
        )
    return file, data


def grant(files: list[Path]) -> None:
    trust = _read()
    trust.files |= {str(file.resolve()): _digest(file.read_bytes()) for file in files}
    _write(trust)


def revoke(files: list[Path]) -> None:
    trust = _read()
    for file in files:
        trust.files.pop(str(file.resolve()), None)
    _write(trust)


def is_approved(folder: str, session: str, subject: str) -> bool:
    """Whether the user has approved this for the session in this folder."""
    return _digest(subject.encode()) in _read().sessions.get(f"{session} {folder}", ())


def approve(folder: str, session: str, subjects: Iterable[str]) -> None:
    """Remember that the user approves these, which are texts of any kind; only their digests are kept."""
    trust, place = _read(), f"{session} {folder}"
    before = trust.sessions.pop(place, [])
    digests = [_digest(subject.encode()) for subject in subjects]
    if set(digests) <= set(before):
        return
    latest = {**trust.sessions, place: [*dict.fromkeys([*before, *digests])]}
    trust.sessions = dict(list(latest.items())[-MOST_SESSIONS:])
    _write(trust)


def approve_copy(folder: str, session: str, copy: str) -> None:
    """What was approved for a session is approved for its copy, too."""
    trust = _read()
    if approved := trust.sessions.get(f"{session} {folder}"):
        trust.sessions[f"{copy} {folder}"] = approved
        _write(trust)


def files_to_trust(start: Path) -> list[Path]:
    """The files of this project that trust is about, nearest first."""
    return [
        file
        for directory in project_directories(start)
        for file in (
            *(directory / name for name in (*PROJECT_FILES, MCP_FILE)),
            *TEMPLATES.in_project(directory),
            *AGENTS.in_project(directory),
        )
        if file.is_file()
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read() -> _Trust:
    """A file that is damaged trusts nothing."""
    try:
        return msgspec.convert(json.loads(trust_file().read_text("utf-8")), _Trust)
    except (OSError, ValueError, msgspec.ValidationError):
        return _Trust()


def _write(trust: _Trust) -> None:
    trust.files = dict(sorted(trust.files.items()))
    write_private(trust_file(), json.dumps(msgspec.to_builtins(trust), indent=2) + "\n")


def verdict_of(path: SettingPath) -> Verdict:
    """What happens to a setting of a project that is not trusted."""
    for length in range(len(path), 0, -1):
        for known, verdict in BEFORE_TRUST.items():
            if _is_like(path[:length], known):
                return verdict
    return "refused"


def judged_settings(
    table: Mapping[str, Any], above: SettingPath = ()
) -> Iterator[tuple[SettingPath, Any, Verdict]]:
    """Every setting of a table that has a verdict of its own, and its value."""
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, dict) and _has_parts(path):
            yield from judged_settings(value, path)
        else:
            yield path, value, verdict_of(path)


def _has_parts(path: SettingPath) -> bool:
    return any(len(known) > len(path) and _is_like(path, known[: len(path)]) for known in BEFORE_TRUST)


def _is_like(path: SettingPath, known: SettingPath) -> bool:
    return len(path) == len(known) and all(
        word in (name, "*") for name, word in zip(path, known, strict=True)
    )
