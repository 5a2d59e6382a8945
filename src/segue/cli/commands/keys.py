"""`segue keys`: API keys, in the keyring of the operating system or in a file that only the user can read."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from segue.cli.display.lists import print_json
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.config.paths import keys_file
from segue.errors import UsageError
from segue.text.redaction import mask

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Manages stored API keys. A key is looked up in the configuration, then in the environment, then here. Only its
last characters are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    store = actions.add_parser("set", help="store a key, from a hidden prompt or from stdin")
    store.add_argument("provider", metavar="PROVIDER")
    store.add_argument(
        "--try", dest="tried", action="store_true", help="store it only if the provider accepts it"
    )
    store.add_argument(
        "--force", action="store_true", help="store it even if it does not look like a key of this provider"
    )
    listing = actions.add_parser("list", help="list providers with a key, and where it comes from")
    listing.add_argument("--json", action="store_true", help="print JSON")
    remove = actions.add_parser("rm", help="remove a stored key")
    remove.add_argument("provider", metavar="PROVIDER")


def run(arguments: argparse.Namespace) -> int:
    match arguments.action:
        case "set":
            stored = ask_and_store(arguments.provider, force=arguments.force, tried=arguments.tried)
            print_status(asyncio.run(stored))
            return Exit.OK
        case "rm":
            return _remove(_proper(arguments.provider))
        case _:
            return _list(as_json=arguments.json)


def store_key(provider: str, key: str) -> str:
    """Store a key; returns the place, for people."""
    from segue.providers.credentials.keys import KEYRING_SERVICE, read_key_file, write_key_file  # noqa: PLC0415

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


async def ask_and_store(provider: str, *, force: bool = False, tried: bool = False) -> str:
    """Read a key from a hidden prompt or from stdin, check it and store it; returns a line about it.

    `tried`: it is sent to the provider first; at a prompt the user is asked.
    """
    provider = _proper(provider)
    key = await _read_key(provider)
    _check_shape(provider, key, force=force)
    if sys.stdin.isatty() and not tried:
        from segue.cli.interactive.prompts.secret_prompt import read_yes  # noqa: PLC0415 - slow to load

        tried = await read_yes("Try it now, with a request that costs nothing?")
    if tried:
        await _try_key(provider, key)
    place = store_key(provider, key)
    return f"The key of {provider} ({mask(key)}) is stored in {place}."


async def _read_key(provider: str) -> str:
    if not sys.stdin.isatty():
        key = sys.stdin.readline().strip()
        why = "The key is empty; nothing was stored."
    else:
        from segue.cli.interactive.prompts.secret_prompt import read_secret  # noqa: PLC0415 - slow to load

        key = await read_secret(f"API key of {provider}")
        why = "Cancelled; nothing was stored."
    if not key:
        raise UsageError(why, code="no_input", hint=f"segue keys set {provider}")
    return key


def _check_shape(provider: str, key: str, *, force: bool) -> None:
    from segue.providers.credentials.keys import shape_problem  # noqa: PLC0415
    from segue.providers.hosts.addresses import find_address  # noqa: PLC0415

    if problem := shape_problem(key, None if force else find_address(provider)):
        raise UsageError(
            f"This is no key of {provider}; nothing was stored. {problem}",
            code="bad_key",
            hint=f"Enter only the key. Store it all the same: segue keys set {provider} --force",
        )


async def _try_key(provider: str, key: str) -> None:
    """Ask the provider for something that only needs a key."""
    from segue.config.layers import load_settings  # noqa: PLC0415
    from segue.providers.config import read_provider_config  # noqa: PLC0415
    from segue.providers.factory import connect  # noqa: PLC0415

    settings, _ = read_provider_config(provider, load_settings().config.providers.get(provider, {}))
    check = connect(provider, settings, api_key=key).capabilities.health
    found = await check() if check is not None else None
    if found is not None and found.status != "healthy":
        raise UsageError(
            f"{provider} did not accept the key; nothing was stored. {found.error}",
            code="bad_key",
            hint=f"Store it all the same, without a trial: segue keys set {provider}",
        )


def _remove(provider: str) -> int:
    from segue.providers.credentials.keys import KEYRING_SERVICE, read_key_file, write_key_file  # noqa: PLC0415

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
        print_json(rows)
    elif not rows:
        print_status("No key is stored, and none is in the environment. Store one: segue keys set PROVIDER")
    else:
        width = max(len(row["provider"]) for row in rows)
        for row in rows:
            sys.stdout.write(f"{row['provider']:<{width}}  {row['key']:<6}  {row['source']}\n")
    return Exit.OK


def found_keys() -> list[dict[str, str]]:
    """Every provider with a key, found without running a command."""
    from segue.providers.credentials.keys import KeySources, find_key, read_key_file  # noqa: PLC0415
    from segue.providers.hosts.addresses import addresses  # noqa: PLC0415

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
    """The main name of a provider with several. Raises UsageError for one that nobody has described."""
    from segue.config.layers import load_settings  # noqa: PLC0415
    from segue.config.resources import unknown_provider  # noqa: PLC0415
    from segue.providers.hosts.addresses import addresses, find_address  # noqa: PLC0415

    address = find_address(provider)
    if address is None and provider not in load_settings().config.providers:
        raise unknown_provider(provider, addresses().providers)
    return address.name if address else provider
