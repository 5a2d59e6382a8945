"""What is wrong with a table of settings: all of it at once, each with its place and what to do."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct, inspect

from segue.config.schema import Config
from segue.config.toml_lines import SettingPath
from segue.databases.postgres.address import read_address
from segue.errors import UsageError
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import UnionType

_KINDS: Final[dict[type[inspect.Type], tuple[str, type | UnionType]]] = {
    inspect.StrType: ("text", str),
    inspect.IntType: ("a whole number", int),
    inspect.FloatType: ("a number", int | float),
    inspect.BoolType: ("true or false", bool),
    inspect.ListType: ("a list", list),
    inspect.DictType: ("a table", dict),
    inspect.StructType: ("a table", dict),
}
"""What a value of a setting is called, and what it is in Python."""
NOT_BY_TYPE: Final = frozenset({"profiles", "gateway", "store", "prices"})
"""Settings that can be wrong although each value has its type."""


@final
class ConfigFault(Struct, frozen=True):
    """One thing that is wrong, and what would be right."""

    path: SettingPath
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


@lru_cache(maxsize=1)
def _shape() -> inspect.Type:
    return inspect.type_info(Config)


def config_faults(table: Mapping[str, Any]) -> list[ConfigFault]:
    """What keeps these settings from being used. Provider sections are looked at by those who know providers."""
    return [
        *_check((), table, _shape()),
        *_profile_faults(table),
        *_gateway_faults(table),
        *_store_faults(table),
        *_price_faults(table),
    ]


def _check(path: SettingPath, value: Any, shape: inspect.Type) -> Iterator[ConfigFault]:
    match shape:
        case inspect.AnyType():
            return
        case inspect.UnionType(types=types):
            possible = [t for t in types if not isinstance(t, inspect.NoneType)]
            fitting = [t for t in possible if type(t) in _KINDS and _is(value, t)]
            yield from _check(path, value, (fitting or possible)[0])
        case inspect.LiteralType(values=values):
            yield from _check_word(path, value, [str(word) for word in values])
        case _ if not _is(value, shape):
            yield ConfigFault(path, f"{_name(path)} must be {_KINDS[type(shape)][0]}, not {_kind_of(value)}.")
        case inspect.StructType():
            yield from _check_table(path, value, shape)
        case inspect.DictType(value_type=value_type):
            for key, item in value.items():
                yield from _check((*path, key), item, value_type)
        case inspect.ListType():
            yield from _check_list(path, value, shape)
        case inspect.IntType() | inspect.FloatType():
            yield from _check_bounds(path, value, shape)
        case _:
            return


def _is(value: Any, shape: inspect.Type) -> bool:
    kind = _KINDS[type(shape)][1]
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_word(path: SettingPath, value: Any, known: list[str]) -> Iterator[ConfigFault]:
    if value not in known:
        hint = suggestion(str(value), known) or f"Valid values: {', '.join(known)}."
        yield ConfigFault(path, f'{_name(path)} is "{value}", which is not a valid value.', hint)


def _check_list(path: SettingPath, items: list[Any], shape: inspect.ListType) -> Iterator[ConfigFault]:
    if shape.min_length and len(items) < shape.min_length:
        yield ConfigFault(path, f"{_name(path)} is empty.", "Name at least one.")
    for item in items:
        yield from _check(path, item, shape.item_type)


def _check_table(
    path: SettingPath, table: dict[str, Any], shape: inspect.StructType
) -> Iterator[ConfigFault]:
    fields = {field.name: field for field in shape.fields}
    for key, item in table.items():
        if key in fields:
            yield from _check((*path, key), item, fields[key].type)
        else:
            yield ConfigFault(
                (*path, key), f'Unknown key "{_name((*path, key))}".', _advice(key, path, fields)
            )
    for name, field in fields.items():
        if field.required and name not in table:
            yield ConfigFault(path, f'{_name(path)} needs "{name}".')


def _advice(key: str, path: SettingPath, fields: Iterable[str]) -> str:
    place = f"[{_name(path)}]" if path else "The file"
    return suggestion(key, fields) or f"{place} has: {', '.join(sorted(fields))}."


def _check_bounds(
    path: SettingPath, value: float, shape: inspect.IntType | inspect.FloatType
) -> Iterator[ConfigFault]:
    # Not `<`: NaN is on neither side of a bound.
    if shape.ge is not None and not value >= shape.ge:
        yield ConfigFault(path, f"{_name(path)} is {value}; it must be at least {shape.ge}.")
    if shape.gt is not None and not value > shape.gt:
        yield ConfigFault(path, f"{_name(path)} is {value}; it must be more than {shape.gt}.")
    if shape.le is not None and not value <= shape.le:
        yield ConfigFault(path, f"{_name(path)} is {value}; it must be at most {shape.le}.")


def _profile_faults(table: Mapping[str, Any]) -> Iterator[ConfigFault]:
    profiles = table.get("profiles")
    for name, profile in profiles.items() if isinstance(profiles, dict) else ():
        members = profile.get("members") if isinstance(profile, dict) else None
        weights = profile.get("weights") if isinstance(profile, dict) else None
        if not isinstance(members, list) or not isinstance(weights, dict):
            continue
        for member in weights:
            if member not in members:
                path = ("profiles", name, "weights")
                yield ConfigFault(
                    path,
                    f'{_name(path)} names "{member}", which is not a member.',
                    suggestion(member, map(str, members)),
                )


def _gateway_faults(table: Mapping[str, Any]) -> Iterator[ConfigFault]:
    gateway = table.get("gateway")
    if not isinstance(gateway, dict):
        return
    callers = gateway.get("callers")
    for name, caller in callers.items() if isinstance(callers, dict) else ():
        if not isinstance(caller, dict):
            continue
        path: SettingPath = ("gateway", "callers", name)
        digest = caller.get("key_sha256", "")
        if bool(digest) == bool(caller.get("key_env")):
            yield ConfigFault(
                path,
                f"{_name(path)} needs either key_sha256 or key_env.",
                f"Make a key: segue gateway keys create {name} --for-file",
            )
        elif isinstance(digest, str) and digest and not re.fullmatch("[0-9a-f]{64}", digest):
            path = (*path, "key_sha256")
            yield ConfigFault(
                path,
                f"{_name(path)} is not a SHA-256 digest: 64 characters of 0-9 and a-f.",
                f"Make a key and its digest: segue gateway keys create {name} --for-file",
            )


def _store_faults(table: Mapping[str, Any]) -> Iterator[ConfigFault]:
    url = table.get("store")
    if isinstance(url, str) and url:
        try:
            read_address(url)
        except UsageError as error:
            yield ConfigFault(("store",), error.message, error.hint)


def _price_faults(table: Mapping[str, Any]) -> Iterator[ConfigFault]:
    prices = table.get("prices")
    for pattern, rule in prices.items() if isinstance(prices, dict) else ():
        path: SettingPath = ("prices", pattern)
        if "/" not in pattern:
            yield ConfigFault(
                path,
                f'"{pattern}" in prices is no provider/model.',
                "Write provider/* for all of a provider.",
            )
        if not isinstance(rule, dict):
            continue
        like, named = rule.get("like"), [name for name in ("input", "output") if name in rule]
        if bool(like) == bool(named) or (named and len(named) < 2):
            yield ConfigFault(
                path,
                f"{_name(path)} needs either like, or input and output.",
                'Write { like = "provider/model" }, { input = 2.5, output = 10 }, or 0 for a server of your own.',
            )


def _name(path: SettingPath) -> str:
    return ".".join(path) or "The file"


def _kind_of(value: Any) -> str:
    kind = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return "text" if isinstance(value, str) else kind.get(type(value), type(value).__name__)
