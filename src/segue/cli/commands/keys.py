"""`segue keys`: API keys, in the keyring of the operating system or in a file that only the user can read."""

from __future__ import annotations

import getpass
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.config.paths import keys_file
from segue.errors import UsageError
from segue.redaction import mask

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Manages stored API keys. A key is looked up in the configuration, then in the environment, then here. Only its
last characters are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    store = actions.add_parser("set", help="store a key, from a hidden prompt or from stdin")
    store.add_argument("provider", metavar="PROVIDER")
    listing = actions.add_parser("list", help="list providers with a key, and where it comes from")
    listing.add_argument("--json", action="store_true", help="print JSON")
    remove = actions.add_parser("rm", help="remove a stored key")
    remove.add_argument("provider", metavar="PROVIDER")


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "set":
            ask_and_store(arguments.provider)
            return Exit.OK
        case "rm":
            return _remove(_proper(arguments.provider))
        case _:
            return _list(as_json=arguments.json)


def store_key(provider: str, key: str) -> str:
    """Store a key; returns the place, for people."""
    from segue.providers.auth import KEYRING_SERVICE, read_key_file, write_key_file  # noqa: PLC0415

    ring = usable_keyring()
    if ring is not None:
        ring.set_password(KEYRING_SERVICE, provider, key)
        return "the keyring of the operating system"
    file = keys_file()
    write_key_file(file, {**read_key_file(file), provider: key})
    return f"{file}, readable only by you (no keyring is available)"


def usable_keyring() -> Any:
    """The keyring module, or None if it cannot store keys. PYTHON_KEYRING_BACKEND chooses where."""
    try:
        import keyring  # noqa: PLC0415 - an extra, and slow to load
        from keyring.backends import fail, null  # noqa: PLC0415

        backend = keyring.get_keyring()
    except Exception:  # a backend that fails while loading cannot be used
        return None
    return None if isinstance(backend, fail.Keyring | null.Keyring) else keyring


def ask_and_store(provider: str) -> None:
    """Read a key from a hidden prompt or from stdin, store it and print where."""
    provider = _proper(provider)
    key = _read_key(provider).strip()
    if not key:
        raise UsageError(
            "The key is empty; nothing was stored.", code="no_input", hint=f"segue keys set {provider}"
        )
    if any(letter.isspace() or not letter.isprintable() for letter in key):
        raise UsageError(
            "The key contains spaces or control characters; nothing was stored.",
            code="bad_key",
            hint="Pipe in only the key.",
        )
    place = store_key(provider, key)
    print_status(f"The key of {provider} ({mask(key)}) is stored in {place}.")


def _read_key(provider: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline()
    return getpass.getpass(f"API key of {provider} (hidden): ")


def _remove(provider: str) -> int:
    from segue.providers.auth import KEYRING_SERVICE, read_key_file, write_key_file  # noqa: PLC0415

    removed = False
    ring = usable_keyring()
    if ring is not None and ring.get_password(KEYRING_SERVICE, provider):
        ring.delete_password(KEYRING_SERVICE, provider)
        removed = True
    file = keys_file()
    kept = read_key_file(file)
    if kept.pop(provider, None) is not None:
        write_key_file(file, kept)
        removed = True
    if not removed:
        raise UsageError(
            f"No key of {provider} is stored.", code="no_key", hint="List the keys: segue keys list"
        )
    print_status(f"Removed the key of {provider}.")
    return Exit.OK


def _list(*, as_json: bool) -> int:
    rows = found_keys()
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    elif not rows:
        print_status("No key is stored, and none is in the environment. Store one: segue keys set PROVIDER")
    else:
        width = max(len(row["provider"]) for row in rows)
        for row in rows:
            sys.stdout.write(f"{row['provider']:<{width}}  {row['key']:<6}  {row['source']}\n")
    return Exit.OK


def found_keys() -> list[dict[str, str]]:
    """Every provider with a key, found without running a command."""
    from segue.providers.addresses import addresses  # noqa: PLC0415
    from segue.providers.auth import KeySources, find_key, read_key_file  # noqa: PLC0415

    file = keys_file()
    names = dict.fromkeys([*addresses().providers, *read_key_file(file)])
    keyring = usable_keyring() is not None
    rows = []
    for name in names:
        address = addresses().providers.get(name)
        variables = address.key_env if address else ()
        sources = KeySources(variables=variables, environ=os.environ, keyring=keyring, file=file)
        if found := find_key(name, sources):
            rows.append({"provider": name, "key": mask(found.secret.reveal()), "source": found.source})
    return rows


def _proper(provider: str) -> str:
    """The main name of a provider with several; an unknown name is kept."""
    from segue.config.validation import suggestion  # noqa: PLC0415
    from segue.providers.addresses import addresses, find_address  # noqa: PLC0415

    address = find_address(provider)
    if address is None and (near := suggestion(provider, addresses().providers)):
        raise UsageError(f'There is no provider "{provider}".', code="unknown_provider", hint=near)
    return address.name if address else provider
