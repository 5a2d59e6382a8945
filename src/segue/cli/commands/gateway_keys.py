"""`segue gateway keys`: makes, lists, changes, revokes and removes the keys of the gateway's callers."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status
from segue.cli.display.turn_summary import dollars
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from segue.config.schema import Allowance, Config
    from segue.gateway.accounts.administration import Administration, CallerInfo
    from segue.gateway.accounts.store import AccountStore

_T = TypeVar("_T")
_LIMITS: dict[str, tuple[type, str, str]] = {
    "requests_per_minute": (int, "requests a minute", "{} req/min"),
    "tokens_per_minute": (int, "tokens a minute", "{} tok/min"),
    "concurrent": (int, "requests at a time", "{} at a time"),
    "dollars_per_day": (float, "dollars a day (UTC)", "${:g}/day"),
    "dollars_per_month": (float, "dollars a month", "${:g}/month"),
}
"""Of each limit: its type, what it is, and how a list shows it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="keys_action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="make a caller and its key, which is shown only now")
    create.add_argument("name", metavar="NAME", help="of the caller: a person, a team, a machine")
    _add_limits(create)
    _add_expires(create)
    create.add_argument("--label", action="append", default=[], metavar="NAME=TEXT", help="a note of yours")
    create.add_argument("--admin", action="store_true", help="it may make keys and see all usage, over HTTP")
    create.add_argument(
        "--for-file", action="store_true", help="store nothing; print lines for a config file"
    )
    change = actions.add_parser("set", help="change a caller's limits; those that are not given stay")
    _add_limits(change)
    change.add_argument("--no-limits", action="store_true", help="first take all limits away")
    rotate = actions.add_parser("rotate", help="make a new key for a caller")
    rotate.add_argument(
        "--grace", type=float, default=0.0, metavar="SECONDS", help="the old key stays valid for this time"
    )
    _add_expires(rotate)
    revoke = actions.add_parser("revoke", help="refuse a caller's keys from now on, on all gateways")
    remove = actions.add_parser("remove", help="remove a caller with its keys and limits; its usage stays")
    remove.add_argument("-y", "--yes", action="store_true", help="do not ask before")
    remove.add_argument("--json", action="store_true", help="print the caller that was removed as JSON")
    listing = actions.add_parser("list", help="list callers, their limits and what they have spent")
    listing.add_argument("--json", action="store_true", help="print JSON")
    for each in (change, rotate, revoke, remove):
        each.add_argument("name", metavar="NAME")
    for each in (create, change, rotate, revoke, remove, listing):
        add_set(each)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", metavar="A,B", help="names or routes it may use, with * for anything")
    for name, (kind, purpose, _) in _LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=purpose)


def _add_expires(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--expires", default="", metavar="DAY", help="2027-01-31, or with a time; UTC")


def run(arguments: argparse.Namespace) -> int:
    act = {
        "create": _create,
        "set": _set,
        "rotate": _rotate,
        "revoke": _revoke,
        "remove": _remove,
        "list": _list,
    }
    return act[arguments.keys_action](arguments)


def _create(arguments: argparse.Namespace) -> int:
    from segue.gateway.accounts.account import moment_of  # noqa: PLC0415
    from segue.gateway.accounts.administration import check_name  # noqa: PLC0415

    limits = _allowance({}, arguments)
    if arguments.for_file:
        if arguments.label:
            raise UsageError(
                "Callers in a config file have no labels.",
                hint="Keep the caller in the store: without --for-file.",
            )
        check_name(arguments.name)
        moment_of(arguments.expires)
        return _print_section(arguments, limits)
    labels = dict(_label(text) for text in arguments.label)
    key = with_administration(
        arguments.sets,
        lambda admin: admin.create(
            arguments.name, limits, labels=labels, expires=arguments.expires, admin=arguments.admin
        ),
    )
    sys.stdout.write(key + "\n")
    print_status(f"This key of {arguments.name} is shown only now: give it to the caller.")
    print_status("The gateway refuses requests without a key from now on.")
    return Exit.OK


def _print_section(arguments: argparse.Namespace, limits: Allowance) -> int:
    from msgspec import structs  # noqa: PLC0415

    from segue.gateway.accounts.account import digest_of, new_key  # noqa: PLC0415

    key = new_key()
    sys.stdout.write(key + "\n")
    print_status("This key is shown only now: give it to the caller. Add this to the configuration:")
    print_status(f"\n[gateway.callers.{json.dumps(arguments.name)}]")
    print_status(f'key_sha256 = "{digest_of(key)}"')
    if arguments.admin:
        print_status("admin = true")
    settings = {**structs.asdict(limits), "expires": arguments.expires}
    for name, value in settings.items():
        if value not in (None, [], ""):
            print_status(f"{name} = {json.dumps(value)}")
    return Exit.OK


def _set(arguments: argparse.Namespace) -> int:
    async def change(admin: Administration) -> None:
        from msgspec import structs  # noqa: PLC0415

        known = {} if arguments.no_limits else structs.asdict(await admin.allowance(arguments.name))
        await admin.change(arguments.name, _allowance(known, arguments))

    with_administration(arguments.sets, change)
    print_status(f"The limits of {arguments.name} hold from now on.")
    return Exit.OK


def _rotate(arguments: argparse.Namespace) -> int:
    key = with_administration(
        arguments.sets,
        lambda admin: admin.rotate(arguments.name, grace=arguments.grace, expires=arguments.expires),
    )
    sys.stdout.write(key + "\n")
    ends = f"holds for {arguments.grace:g} more seconds" if arguments.grace > 0 else "is refused from now on"
    print_status(f"This key of {arguments.name} is shown only now. The old one {ends}.")
    return Exit.OK


def _revoke(arguments: argparse.Namespace) -> int:
    with_administration(arguments.sets, lambda admin: admin.revoke(arguments.name))
    print_status(f"The keys of {arguments.name} are refused from now on.")
    return Exit.OK


def _remove(arguments: argparse.Namespace) -> int:
    async def remove(admin: Administration) -> tuple[CallerInfo, bool]:
        await _confirm_removal(await admin.caller(arguments.name), arguments)
        removed = await admin.remove(arguments.name)
        return removed, bool(await admin.callers())

    removed, others = with_administration(arguments.sets, remove)
    if arguments.json:
        print_json(removed)
    print_status(f"{removed.name} is removed, with its keys and limits. Its usage stays listed.")
    if not others and not read_settings(arguments.sets).config.gateway.callers:
        print_status("No caller is left: the gateway serves this machine without a key, and no other one.")
    return Exit.OK


async def _confirm_removal(caller: CallerInfo, arguments: argparse.Namespace) -> None:
    """Raises UsageError if the user does not want it, or nobody can be asked."""
    _, models, limits, *_, state = _row(caller)
    lost = [f"its keys ({state})", f"models {models}", *([f"limits {limits}"] if limits != "-" else ())]
    lost += [f"label {name}={text}" for name, text in caller.labels.items()]
    print_status(f"Lost with {caller.name}: {'; '.join(lost)}.")
    print_status(
        "A caller of this name that is made later continues its usage, and gets what is remembered for it."
    )
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"Nobody can be asked whether to remove {caller.name}.", code="not_asked", hint="Allow it: --yes"
        )
    from segue.cli.interactive.prompts.secret_prompt import read_yes  # noqa: PLC0415 - slow to load

    if not await read_yes("Remove it?"):
        raise UsageError("Nothing was removed.", code="not_asked")


def _list(arguments: argparse.Namespace) -> int:
    callers = with_administration(arguments.sets, lambda admin: admin.callers())
    if arguments.json:
        print_json(callers)
    elif callers:
        print_table([("NAME", "MODELS", "LIMITS", "TODAY", "MONTH", "RUNNING", "STATE"), *map(_row, callers)])
    in_file = read_settings(arguments.sets).config.gateway.callers
    if in_file:
        names = (f"{name} (operator)" if caller.admin else name for name, caller in sorted(in_file.items()))
        print_status(f"Callers of the configuration: {', '.join(names)}. What they spent: segue usage")
    elif not callers:
        print_status("No caller was made yet: segue gateway keys create NAME")
    return Exit.OK


def _row(caller: CallerInfo) -> tuple[str, ...]:
    limits = caller.allowance
    shown = [
        form.format(value)
        for name, (_, _, form) in _LIMITS.items()
        if (value := getattr(limits, name)) is not None
    ]
    state = "revoked" if caller.revoked is not None else "operator" if caller.admin else "valid"
    if caller.revoked is None and caller.expires is not None:
        day = time.strftime("%Y-%m-%d", time.gmtime(caller.expires))
        state = f"until {day}" if caller.expires > time.time() else f"expired {day}"
    spent = (dollars(caller.dollars_today), dollars(caller.dollars_this_month), str(caller.running))
    return (caller.name, ", ".join(limits.models) or "all", ", ".join(shown) or "-", *spent, state)


def _allowance(known: dict[str, Any], arguments: argparse.Namespace) -> Allowance:
    import msgspec  # noqa: PLC0415

    from segue.config.schema import Allowance  # noqa: PLC0415

    given = {name: value for name in _LIMITS if (value := getattr(arguments, name)) is not None}
    if arguments.models is not None:
        given["models"] = [name.strip() for name in arguments.models.split(",") if name.strip()]
    if unbounded := [name for name in given if given[name] == float("inf")]:
        flag = f"--{unbounded[0].replace('_', '-')}"
        raise UsageError(f"{flag} is no limit.", code="bad_limit", hint="Without the flag there is none.")
    try:
        return msgspec.convert({**known, **given}, Allowance)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].strip("`")
        least = "more than 0" if name.startswith("dollars") else "at least 1"
        raise UsageError(
            f"--{name.replace('_', '-')} is {given.get(name)}; it must be {least}.",
            code="bad_limit",
            hint="Without the flag there is no such limit.",
        ) from error


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f'"{text}" is no label.', code="bad_label", hint="Write it as NAME=TEXT.")
    return name, value


def with_administration(sets: list[str], act: Callable[[Administration], Awaitable[_T]]) -> _T:
    """Do something with the accounts of the gateway that the settings describe."""
    from segue.gateway.accounts.administration import Administration  # noqa: PLC0415

    config = read_settings(sets).config
    if config.gateway.memory.keep == "memory":
        raise UsageError(
            'This gateway keeps its accounts only in its process (gateway.memory.keep = "memory").',
            code="nothing_kept",
            hint="Use the HTTP API of the running gateway, or keep them in a file.",
        )

    return with_account_store(config, lambda store: act(Administration(store)))


def has_accounts(config: Config) -> bool:
    """Whether keys were made with `segue gateway keys create`."""
    return bool(with_account_store(config, lambda store: store.accounts()))


def with_account_store(config: Config, act: Callable[[AccountStore], Awaitable[_T]]) -> _T:
    import asyncio  # noqa: PLC0415

    from segue.gateway.stores import open_account_store  # noqa: PLC0415

    async def main() -> _T:
        store = open_account_store(config)
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(main())
