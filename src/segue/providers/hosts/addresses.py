"""The addresses of providers, read from providers.toml on first use, and base URLs: what is configured, or in the
environment, or known, with its places filled in. A place is a part of an address that every user has another of, such
as a project or a resource."""

from __future__ import annotations

import re
import tomllib
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import msgspec
from msgspec import Struct, structs

from segue.dialects.registry import proper_name
from segue.errors import UsageError
from segue.providers.hosts.host_form import HostForm
from segue.text.suggestions import suggestion

if TYPE_CHECKING:
    from segue.providers.config import ProviderConfig


AuthStyle: TypeAlias = Literal["bearer", "x-api-key", "x-goog-api-key", "api-key", "cf-aig-authorization"]
"""The header that carries the key."""
WITH_BEARER: Final = ("authorization", "cf-aig-authorization")
"""Headers in which the word Bearer stands before the key."""
TokenKind: TypeAlias = Literal["", "adc", "entra"]
"""Whose way of finding credentials is used where there is no key."""

_NO_HOST = re.compile(r"[\s\x00-\x1f<>\"{}|\\^`,;()]")
"""No name of a server has one of these."""
_VERSION = re.compile(r"/v\d+[a-z0-9]*$")
_USUAL_PATH = "openai_chat"
_OWN = "openai-compatible"
"""Like which an unknown provider is taken to be that has a base URL and names no dialect."""


@final
class Address(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known about reaching one provider."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    dialects: tuple[str, ...]
    """The default one first."""
    base_url: str = ""
    """Empty if every user has another one. A name in braces is a place: part of the address that every user has another of."""
    base_url_env: tuple[str, ...] = ()
    base_path: str = ""
    """Added to a base URL that was given without a path; with places, to every one that has not got so far."""
    places: Mapping[str, tuple[str, ...]] = {}
    """A place → the variables that may hold it. The setting has the name of the place."""
    own_places: tuple[str, ...] = ()
    """Those that say whose it is: a provider that is like this one has its own, and not the one of the environment."""
    usual_places: Mapping[str, str] = {}
    """What a place is if nobody says."""
    hosts: Mapping[str, str] = {}
    """The place `host`, by the location; `*` is for all others."""
    no_base_urls: Mapping[str, str] = {}
    """Parts of addresses that people paste and that are not this one, with what to write instead."""
    env_path: str = ""
    """Added to a base URL of the environment behind any path: the variable belongs to clients that add it themselves."""
    scheme: str = "http"
    """Of a base URL that was given without one."""
    port: int | None = None
    """Of a base URL that was given as a host alone."""
    key_env: tuple[str, ...] = ()
    key_prefixes: tuple[str, ...] = ()
    """What its keys begin with, where that is certain."""
    organization_env: str = ""
    auth: AuthStyle = "bearer"
    service: str = ""
    """The name that requests to AWS are signed for, where there is no key (credentials/aws.py)."""
    dialect_paths: Mapping[str, str] = {}
    """Added to the base URL for a dialect, where each has a place of its own."""
    needs_key: bool = True
    token: TokenKind = ""
    """Where a token comes from if there is no key."""
    scope: str = ""
    """What such a token is for."""
    headers: Mapping[str, str] = {}
    """Of every request. A name in braces is a place, as in the base URL."""
    in_sessions: Mapping[str, Any] = {}
    """Fields added to requests of a session, whose prefix will be sent again: some caches must be requested."""
    in_sessions_of: Mapping[str, Mapping[str, Any]] = {}
    """The same for one dialect, where they differ."""
    models: tuple[str, ...] = ()
    """Patterns of the names of its own models, where the name does not show a dialect of the Chat wire (cards.toml)."""
    model: str = ""
    """Of a request that names none, where the default of the dialect is another provider's."""
    embedding_model: str = ""
    """As configured; else the default of the dialect."""
    paths: Mapping[str, str] = {}
    whole_paths: Mapping[str, str] = {}
    """By dialect, where they are not those of the wire."""
    paths_of: str = ""
    """The provider in the table whose paths these are: its own name, or that of the one it is like."""
    form: HostForm = HostForm()
    card: Mapping[str, Any] = {}
    """Facts that hold for all its models: fields of a card."""
    errors_by_header: Mapping[str, str] = {}
    """A header that marks errors of a cloud → the dialect in which they are written."""
    services: str = ""
    """Whose lists of models and token counts it has, if not those of its dialect."""
    models_path: str = ""
    """Of its list of models, from the base URL on, if not the wire's; `-`: it lists none."""
    batches: str = ""
    """The module that knows its batch endpoint; empty if it has none that we know."""
    start: str = ""
    """The command that starts the server, if it is a local one."""
    docs: str = ""
    keys: str = ""
    """Where one gets a key."""
    documented: str = ""
    """What of all this is known from documentation and SDKs alone, for nobody has tried it here."""
    unconfirmed: str = ""
    """What of it no source confirms."""


@final
class Addresses(Struct, frozen=True):
    """All of providers.toml."""

    paths: Mapping[str, str]
    whole_paths: Mapping[str, str]
    """Of replies that are not streamed, where that path differs."""
    providers: Mapping[str, Address]


@lru_cache(maxsize=1)
def addresses() -> Addresses:
    table = tomllib.loads(files(__package__).joinpath("providers.toml").read_text("utf-8"))
    providers = {
        name: {"name": name, "paths_of": name, **fields} for name, fields in table["providers"].items()
    }
    return Addresses(table["paths"], table["whole_paths"], msgspec.convert(providers, dict[str, Address]))


@lru_cache(maxsize=256)
def path_of(dialect: str, model: str, *, stream: bool = True, provider: str = "") -> str:
    """What follows the base URL for a chat with a model in this dialect, at its home or at another provider."""
    known = addresses()
    own = known.providers.get(provider)
    for at in (own, known) if own is not None else (known,):
        path = (None if stream else at.whole_paths.get(dialect)) or at.paths.get(dialect)
        if path:
            break
    path = path or known.paths[_USUAL_PATH]
    return path.replace("{model}", quote(model.removeprefix("models/"), safe="@"))


def is_home(provider: str, dialect: str) -> bool:
    """Whether a provider is the one whose API this dialect is: the first in the table that uses it."""
    homes = (name for name, address in addresses().providers.items() if dialect in address.dialects)
    return next(homes, "") == provider


def find_address(name: str) -> Address | None:
    """The address of a provider, by its name or by another that people type."""
    known = addresses().providers
    return known.get(name) or next((a for a in known.values() if name in a.aliases), None)


def address_of(name: str, config: ProviderConfig) -> Address | None:
    """The address of a provider with its configuration applied; an unknown provider needs a base URL."""
    known = find_address(name)
    if known is None and config.like:
        like = find_address(config.like)
        if like is None:
            return None
        # The usual variables hold the key and the address of another account.
        known = structs.replace(
            like,
            name=name,
            title=f"{like.title} ({name})",
            key_env=(_variable(name),),
            base_url_env=(),
            places={place: () if place in like.own_places else names for place, names in like.places.items()},
            aliases=(),
        )
    if known is None:
        if not config.base_url:
            return None
        like = next((a for a in map(find_address, (_like(config.dialect), _OWN)) if a is not None), None)
        if like is None:
            return None
        known = structs.replace(
            like, name=name, title=name, key_env=(_variable(name),), base_url_env=(), aliases=()
        )
    changed: dict[str, Any] = {}
    if config.dialect:
        try:
            changed["dialects"] = (proper_name(config.dialect),)
        except UsageError:
            return known
    if config.auth:
        changed["auth"] = config.auth
    if config.embedding_model:
        changed["embedding_model"] = config.embedding_model
    if config.scope:
        changed["scope"] = config.scope
    return structs.replace(known, **changed) if changed else known


def unknown_like(name: str, config: ProviderConfig) -> UsageError | None:
    """The error for a provider that is like one that nobody knows; None if that is not why there is no address."""
    if not config.like or find_address(name) or find_address(config.like):
        return None
    known = addresses().providers
    return UsageError(
        f'"{name}" is to be like "{config.like}", which is not known.',
        code="unknown_provider",
        path=f"providers.{name}.like",
        hint=suggestion(config.like, known) or f"Known are: {', '.join(known)}.",
    )


def _like(dialect: str) -> str:
    """The provider whose headers (key, version) a server of this dialect shares."""
    try:
        return f"{proper_name(dialect)}-compatible" if dialect else ""
    except UsageError:
        return ""


def _variable(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).upper() + "_API_KEY"


def split_url(url: str) -> tuple[str, dict[str, str], dict[str, str]]:
    """A base URL that may be shown, its query, and the header for the user name and password in it: those may not."""
    parts = urlsplit(url)
    named, _, host = parts.netloc.rpartition("@")
    headers = {"authorization": f"Basic {b64encode(unquote(named).encode()).decode()}"} if named else {}
    return urlunsplit((parts.scheme, host, parts.path, "", "")), dict(parse_qsl(parts.query)), headers


def complete_url(given: str, address: Address, *, in_environment: bool = False) -> str:
    """A base URL as people write it, in full: they leave out the scheme, the port, or the path of the version."""
    written = given.strip()
    bare = "://" not in written
    try:
        parts = urlsplit(f"{address.scheme}://{written}" if bare else written)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or _NO_HOST.search(parts.hostname):
        raise UsageError(
            f'"{written.rpartition("@")[2]}" is not the address of a server.',
            code="bad_url",
            path=f"providers.{address.name}.base_url",
            hint="Write it as http://host:port or https://host/path.",
        )
    netloc = parts.netloc
    if bare and port is None and address.port is not None:
        netloc = f"{netloc.rstrip(':')}:{address.port}"
    if parts.hostname == "0.0.0.0":  # noqa: S104 - a server listens everywhere, but is called somewhere
        netloc = netloc.replace("0.0.0.0", "127.0.0.1", 1)  # noqa: S104
    for part, hint in address.no_base_urls.items():
        if part in f"{parts.path.rstrip('/')}/":
            raise UsageError(
                f"This is not the base URL of {address.title}: it has {part} in it.",
                code="bad_url",
                path=f"providers.{address.name}.base_url",
                hint=hint.replace("{host}", parts.hostname),
            )
    path = parts.path.rstrip("/") or address.base_path
    added = address.env_path
    if in_environment and not _VERSION.search(path) and f"{added}/".split("/")[1] not in path.split("/"):
        path += added
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


_PLACE: Final = re.compile(r"\{(\w+)\}")
_NO_PLACE: Final = re.compile(r"[\s/?#@%\\]")
"""A place is one part of an address, and stays one."""


def base_url_of(address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """The configuration comes first, then the environment, then what is known."""
    if config.base_url:
        return _in_place(complete_url(config.base_url, address), address, config, environ)
    set_there = next((environ[name] for name in address.base_url_env if environ.get(name)), "")
    if set_there:
        return _in_place(complete_url(set_there, address, in_environment=True), address, config, environ)
    if address.base_url:
        return filled_places(address.base_url, address, config, environ)
    variable = f", or {address.base_url_env[0]}" if address.base_url_env else ""
    raise UsageError(
        f"{address.title} has no address of its own.",
        code="no_base_url",
        path=f"providers.{address.name}.base_url",
        hint=f"Set providers.{address.name}.base_url{variable}.",
    )


def _in_place(url: str, address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """A given address, which may end before the places begin: a cloud's own clients add those themselves."""
    if "{" in url:  # it had no path of its own, and got the usual one
        return filled_places(url, address, config, environ)
    if "{" not in address.base_path or _last_fixed_part(address.base_path) in url:
        return url
    path = address.base_path
    if (version := f"/{path.split('/')[1]}") and url.endswith(version):
        path = path.removeprefix(version)
    return url + filled_places(path, address, config, environ)


def filled_places(text: str, address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """The text with what is configured, or in the environment. Raises with the setting and the variables to set."""
    return _PLACE.sub(lambda found: _place(found[1], address, config, environ), text)


def _last_fixed_part(path: str) -> str:
    """What follows the last place: an address that has it is complete."""
    return _PLACE.split(path)[-1]


def _place(name: str, address: Address, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    if name == "host":
        location = _place("location", address, config, environ)
        host = address.hosts.get(location) or address.hosts["*"]
        return host.replace("{location}", location)
    variables = address.places.get(name, ())
    set_there = next((environ[variable] for variable in variables if environ.get(variable)), "")
    value = getattr(config, name, "") or set_there or address.usual_places.get(name, "")
    if not value and name == "project" and address.token == "adc":  # noqa: S105 - a kind of token
        from segue.providers.credentials.google import project_in_file  # noqa: PLC0415 - of one cloud

        value = project_in_file(environ)
    if not value and name == "region":
        from segue.providers.credentials.aws import missing_region, region_of  # noqa: PLC0415 - of one cloud

        value = region_of(address, config, environ)
        if not value:
            raise missing_region(address)
    setting = f"providers.{address.name}.{name}"
    if not value:
        of_address = address.base_url_env if f"{{{name}}}" in address.base_url + address.base_path else ()
        others = (*variables, *of_address)
        named = f", or {' or '.join(others)}" if others else ""
        raise UsageError(
            f"{address.title} needs a {name}.",
            code="no_base_url",
            path=setting,
            hint=f"Set {setting}{named}.",
        )
    if _NO_PLACE.search(value):
        raise UsageError(
            f'"{value}" is not the name of a {name}.',
            code="bad_url",
            path=setting,
            hint="Write its name alone.",
        )
    return value
