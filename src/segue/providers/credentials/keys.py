"""Keys: where they may be found, in which order, and how a request carries them.

The first source that has one counts: given outright, the configuration (the key itself, a variable's name, a command),
the variables of the environment that people already have, the store of the operating system, a private file. Before a key is stored, its
letters, length and beginning are looked at.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess  # the user's own command, split and run without a shell
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Final, NoReturn, final

import msgspec
from msgspec import Struct, field

from segue.errors import CredentialsError, UsageError
from segue.providers.hosts.addresses import WITH_BEARER, Address, addresses
from segue.system.private_files import write_private
from segue.text.redaction import remember_secret

KEYRING_SERVICE = "segue"
COMMAND_SECONDS = 30.0


@final
class Secret:
    """A text that is never shown; `reveal` gives it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text
        remember_secret(text)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret is not written down.")


@final
class KeySources(Struct, frozen=True, kw_only=True):
    """Where to look for the key of one provider."""

    given: Secret | None = None
    variable: str = ""
    command: str = ""
    variables: tuple[str, ...] = ()
    environ: Mapping[str, str] = {}
    keyring: bool = True
    file: Path | None = None

    def __repr__(self) -> str:
        return "KeySources(***)"


@final
class FoundKey(Struct, frozen=True):
    """A key, and where it was found."""

    secret: Secret
    source: str


@final
class Key(Struct, eq=False):
    """The key of one provider: looked for when it is first needed, then remembered."""

    address: Address
    sources: KeySources
    known: bool = False
    """Whether it was looked for already."""
    _found: FoundKey | None = None
    _lock: Lock = field(default_factory=Lock)

    def __repr__(self) -> str:
        return f"Key({self.address.name})"

    def find(self) -> FoundKey | None:
        """May run a command or ask the system's store, so it may block: call it in a thread."""
        with self._lock:
            if not self.known:
                self._found = find_key(self.address.name, self.sources)
                self.known = True
            return self._found

    async def ready(self) -> None:
        """Find the key without blocking the event loop."""
        if not self.known:
            await asyncio.to_thread(self.find)

    def forget(self) -> None:
        """The provider refused it: a command may have a newer one."""
        self.known = False

    def headers(self) -> Mapping[str, str]:
        """What a request carries; raises CredentialsError where a key is needed and there is none."""
        found = self.find()
        if found is not None:
            value = found.secret.reveal()
            if not (value.isascii() and value.isprintable()):
                raise CredentialsError(
                    f"The key for {self.address.title} from {found.source} has characters that no key may have.",
                    code="bad_key",
                    path=f"providers.{self.address.name}",
                    hint="Look for line breaks and typographic quotes in it.",
                )
            header = "authorization" if self.address.auth == "bearer" else self.address.auth
            return {header: f"Bearer {value}" if header in WITH_BEARER else value}
        if self.address.needs_key:
            raise missing_key(self.address, self.sources.variable)
        return {}

    def check(self) -> None:
        """Raises what is wrong with the key."""
        self.headers()

    def is_offered(self) -> bool:
        return not self.address.needs_key or self.find() is not None


def missing_key(address: Address, variable: str = "") -> CredentialsError:
    """Names the variable to set and the command that stores a key."""
    names = (variable,) if variable else address.key_env
    set_it = f"Set {' or '.join(names)}, or run" if names else "Run"
    page = f" Keys are made at {address.keys}" if address.keys else ""
    return CredentialsError(
        f"There is no key for {address.title}.",
        code="missing_key",
        path=f"providers.{address.name}",
        hint=f"{set_it}: segue keys set {address.name}.{page}",
    )


def find_key(name: str, sources: KeySources) -> FoundKey | None:
    return (
        (FoundKey(sources.given, "given") if sources.given else None)
        or _from_environ(sources, (sources.variable,))
        or (_from_command(name, sources.command) if sources.command else None)
        # Who names a variable means that account, and not the one whose key is in the usual variable.
        or (None if sources.variable else _from_environ(sources, sources.variables))
        or (_from_keyring(name) if sources.keyring else None)
        or (_from_file(name, sources.file) if sources.file is not None else None)
    )


def _from_environ(sources: KeySources, names: tuple[str, ...]) -> FoundKey | None:
    for name in names:
        if value := _clean(sources.environ.get(name, "")):
            return FoundKey(Secret(value), f"the variable {name}")
    return None


def _from_command(name: str, command: str) -> FoundKey:
    # What the command prints is the key, so none of it may stand in an error.
    place = f"providers.{name}.key_command"
    try:
        done = subprocess.run(  # noqa: S603
            shlex.split(command), capture_output=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not written as in a shell"
        raise CredentialsError(
            f"The key_command of {name} cannot be run: {why}.",
            code="key_command_failed",
            path=place,
            hint="Check that the program exists and is written as in a shell.",
        ) from None
    except subprocess.TimeoutExpired:
        raise CredentialsError(
            f"The key_command of {name} did not end within {COMMAND_SECONDS:g} s.",
            code="key_command_failed",
            path=place,
            hint="Run it by hand: it may be waiting for an answer.",
        ) from None
    key = _clean(done.stdout.decode("utf-8", "replace"))
    if done.returncode or not key:
        why = f"ended with status {done.returncode}" if done.returncode else "printed nothing"
        raise CredentialsError(
            f"The key_command of {name} {why}.",
            code="key_command_failed",
            path=place,
            hint="Run it by hand: it must print the key and nothing else.",
        )
    return FoundKey(Secret(key), "the key_command")


def _from_keyring(name: str) -> FoundKey | None:
    try:
        import keyring  # noqa: PLC0415 - an optional package, slow to load

        value = keyring.get_password(KEYRING_SERVICE, name)
    except Exception:  # no package, no store, a locked store: none of them has a key
        return None
    return FoundKey(Secret(value), "the keyring") if value else None


def _from_file(name: str, path: Path) -> FoundKey | None:
    value = _clean(read_key_file(path).get(name, ""))
    return FoundKey(Secret(value), f"the file {path.name}") if value else None


def _clean(value: str) -> str:
    return value.strip().strip("\"'")


def read_key_file(path: Path) -> dict[str, str]:
    """The keys in a private file, by provider; none if there is no such file. Refuses one that others can read."""
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    if os.name == "posix" and mode & 0o077:
        raise UsageError(
            f"Others can read the key file {path}.",
            code="key_file_not_private",
            hint=f"Run: chmod 600 {shlex.quote(str(path))}",
        )
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, str])
    except msgspec.DecodeError:
        raise UsageError(
            f"The key file {path} cannot be read: it must hold one JSON object of names and keys.",
            code="bad_key_file",
            hint="Remove it and store the keys again: segue keys set NAME.",
        ) from None


def write_key_file(path: Path, keys: Mapping[str, str]) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(dict(keys)), indent=2).decode() + "\n")


SHORTEST: Final = 16
"""Characters of a key of a provider that issues keys; local servers take any word."""


def shape_problem(key: str, address: Address | None) -> str:
    """What speaks against the key, in a sentence; "" if nothing does. `address`: None for a provider of one's own."""
    if not key.isascii() or any(letter.isspace() or not letter.isprintable() for letter in key):
        return "It contains spaces, control characters or letters that no key has."
    if address is None or not address.needs_key:
        return ""
    if len(key) < SHORTEST:
        return f"It has {len(key)} characters, and a key of {address.title} has more."
    owner = _owner(key)
    other = "" if owner is None or owner.name == address.name else f"looks like a key of {owner.title}."
    if not address.key_prefixes:
        return f"It {other}" if other else ""
    if key.startswith(address.key_prefixes):
        return ""
    begins = f"A key of {address.title} begins with {' or '.join(address.key_prefixes)}."
    return f"{begins} This one {other}" if other else begins


def _owner(key: str) -> Address | None:
    """The provider whose keys begin so; None if several do or none."""
    fitting = [
        (len(prefix), address)
        for address in addresses().providers.values()
        for prefix in address.key_prefixes
        if key.startswith(prefix)
    ]
    longest = max((length for length, _ in fitting), default=0)
    owners = [address for length, address in fitting if length == longest]
    return owners[0] if len(owners) == 1 else None
