"""A configuration of the LiteLLM proxy as ours: models, routers, fallbacks and keys, and a list of what has no match here."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, final

from msgspec import Struct

from segue.errors import UsageError

_ENVIRON = "os.environ/"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KNOWN_PARTS = frozenset(
    {"model_list", "router_settings", "litellm_settings", "general_settings", "environment_variables"}
)
_CREDENTIAL = "litellm_credential_name"
_KNOWN_PARAMETERS = frozenset(
    {
        "model",
        "api_key",
        "api_base",
        "base_url",
        "weight",
        "api_version",
        "organization",
        "timeout",
        "stream_timeout",
        _CREDENTIAL,
    }
)
_KNOWN_SETTINGS = frozenset(
    {
        "routing_strategy",
        "fallbacks",
        "default_fallbacks",
        "context_window_fallbacks",
        "num_retries",
        "drop_params",
        "model_group_alias",
        "allowed_fails",
        "cooldown_time",
        "timeout",
        "request_timeout",
    }
)


@final
class LitellmTranslation(Struct, frozen=True):
    """Settings in TOML, and what could not be translated."""

    toml: str
    missing: tuple[str, ...]


def translate(config: object) -> LitellmTranslation:
    """Raises UsageError if this is no configuration of LiteLLM."""
    if not isinstance(config, Mapping) or not isinstance(config.get("model_list"), Sequence):
        raise UsageError(
            "This is no configuration of the LiteLLM proxy: it has no model_list.",
            code="not_litellm",
            hint="Give the file that `litellm --config` takes.",
        )
    return _Translator(config).translated()


class _Translator:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._missing: list[str] = []
        self._providers: dict[str, dict[str, Any]] = {}
        self._seconds: dict[str, str] = {}
        """Other accounts of a provider."""
        self._variables: dict[tuple[str, str], str] = {}
        """A vendor and a key in the file → the variable that shall have it."""
        self._groups: dict[str, list[tuple[str, float]]] = {}
        """Each name that clients ask for → its routes, each with a weight."""
        self._options: dict[str, dict[str, Any]] = {}
        self._waits: dict[str, float] = {}
        """How long each provider may take to begin: the longest time of its models."""
        self._patterns: dict[str, str] = {}
        """Names with `*` → the one route that answers them."""
        self._tables = _tables()

    def translated(self) -> LitellmTranslation:
        for index, entry in enumerate(self._config["model_list"]):
            self._read_model(f"model_list[{index}]", entry)
        router = _table(self._config, "router_settings")
        general, settings = _table(self._config, "general_settings"), _table(self._config, "litellm_settings")
        profiles, aliases = self._profiles(router, settings)
        gateway = self._gateway(general, settings)
        for part in self._config:
            if part not in _KNOWN_PARTS:
                self._miss(part, "is not known here")
        if self._config.get("environment_variables"):
            self._miss("environment_variables", "set them where the gateway is started")
        tables: list[tuple[str, dict[str, Any]]] = [
            *((f"providers.{_key(name)}", self._timed(name)) for name in self._providers),
            ("prices", self._prices()),
            ("aliases", aliases),
            *((f"profiles.{_key(name)}", table) for name, table in profiles.items()),
            *((f"options.{_key(name)}", table) for name, table in self._options.items()),
            *gateway,
        ]
        return LitellmTranslation(_toml(tables), tuple(self._missing))

    def _miss(self, place: str, why: str) -> None:
        self._missing.append(f"{place}: {why}.")

    # Models

    def _read_model(self, place: str, entry: object) -> None:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("model_name"), str):
            self._miss(place, "is no model")
            return
        name, given = entry["model_name"], _table(entry, "litellm_params")
        model = given.get("model")
        if not isinstance(model, str) or not model:
            self._miss(place, "names no model")
            return
        route = self._route(place, model, given)
        if route is None:
            return
        if "*" in model:
            self._miss(f"{place} ({name})", "is not needed: every provider/model can be asked for as it is")
            return
        if "*" in name:
            self._patterns[name] = route
            return
        if isinstance(wait := given.get("timeout", given.get("stream_timeout")), int | float):
            provider = route.partition("/")[0]
            self._waits[provider] = max(float(wait), self._waits.get(provider, 0.0))
        weight = given.get("weight", given.get("rpm", 1))
        self._groups.setdefault(name, []).append(
            (route, float(weight) if isinstance(weight, int | float) else 1.0)
        )
        options = {ours: given[theirs] for theirs, ours in self._tables["options"].items() if theirs in given}
        if options:
            self._options[route] = {**self._options.get(route, {}), **options}
        for parameter in given:
            known = {*_KNOWN_PARAMETERS, *self._tables["options"], *self._tables["places"]}
            if parameter not in known:
                self._miss(f"{place}.litellm_params.{parameter}", "has no match here")

    def _route(self, place: str, model: str, given: Mapping[str, Any]) -> str | None:
        prefix, slash, rest = model.partition("/")
        if not slash:
            prefix, rest = "openai", model
        address = next(
            (given[name] for name in ("api_base", "base_url") if isinstance(given.get(name), str)), ""
        )
        ours = self._tables["providers"].get(prefix)
        for begins, other in self._tables["routes"].items():
            if model.startswith(begins):
                ours, rest = other, model[begins.rindex("/") + 1 :]
        settings: dict[str, Any] = {}
        if ours is None:
            if prefix not in self._tables["compatible"]:
                self._miss(f"{place} ({model})", f"the provider {prefix} is not known here")
                return None
            ours = prefix
            address = address or self._tables["compatible"][prefix]
            settings["dialect"] = "openai_compatible"
        elif address and ours == "openai":
            # LiteLLM takes every server of this wire under the name of its first one.
            ours, settings["dialect"] = "openai-compatible", "openai_compatible"
        if address.startswith(_ENVIRON):
            self._miss(
                f"{place}.litellm_params.api_base", f"write the address: {address} is read by LiteLLM only"
            )
            address = ""
        if address:
            settings["base_url"] = address
        settings |= self._key_of(place, ours, given)
        for name in ("api_version", "organization"):
            if isinstance(given.get(name), str):
                settings[name] = given[name]
        settings |= self._places(place, given)
        return f"{self._provider(ours, settings)}/{rest}"

    def _places(self, place: str, given: Mapping[str, Any]) -> dict[str, str]:
        """Where in a cloud a model is."""
        found: dict[str, str] = {}
        for theirs, setting in self._tables["places"].items():
            value = given.get(theirs)
            if isinstance(value, str) and value.startswith(_ENVIRON):
                self._miss(
                    f"{place}.litellm_params.{theirs}", f"write the value: {value} is read by LiteLLM only"
                )
            elif isinstance(value, str):
                found[setting] = value
        return found

    def _key_of(self, place: str, ours: str, given: Mapping[str, Any]) -> dict[str, str]:
        """Where the key of an account is. Each key has a variable of its own, so that no two accounts become one."""
        key, credential = given.get("api_key"), given.get(_CREDENTIAL)
        if isinstance(key, str) and key.startswith(_ENVIRON):
            return {"api_key_env": key.removeprefix(_ENVIRON)}
        if not key and not credential:
            usual = self._tables["keys"].get(ours, "")
            return {"api_key_env": usual} if usual else {}
        account = ours, json.dumps([key, credential], default=str)
        variable = self._variables.get(account)
        if variable is None:
            number = 1 + sum(vendor == ours for vendor, _ in self._variables)
            vendor = "".join(c if c.isalnum() else "_" for c in ours).upper()
            variable = self._variables[account] = f"LITELLM_{vendor}_KEY" + (
                f"_{number}" if number > 1 else ""
            )
        self._miss(
            f"{place}.litellm_params.{'api_key' if key else _CREDENTIAL}",
            f"a key is not copied: put it into the variable {variable}",
        )
        return {"api_key_env": variable}

    def _provider(self, ours: str, settings: dict[str, Any]) -> str:
        """A provider with these settings: one for each account and address. Beside the first of its kind it gets a number."""
        number = 1
        while (known := self._providers.get(_numbered(ours, number))) is not None:
            own = {**settings, **_of_a_second(ours, settings)} if number > 1 else settings
            if known == own:
                return _numbered(ours, number)
            number += 1
        name = _numbered(ours, number)
        if number > 1 and "dialect" not in settings:
            self._seconds[name] = ours
        self._providers[name] = {**settings, **_of_a_second(ours, settings)} if number > 1 else settings
        return name

    def _timed(self, name: str) -> dict[str, Any]:
        """The settings of a provider, with its time limit. That is none of an account: it makes no second provider."""
        wait = self._waits.get(name)
        return self._providers[name] | ({"timeouts": {"first_byte": wait}} if wait else {})

    def _prices(self) -> dict[str, Any]:
        """A second account costs what the first does."""
        return {f"{name}/*": {"like": f"{ours}/*"} for name, ours in self._seconds.items()}

    # Routers

    def _profiles(
        self, router: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        strategy = router.get("routing_strategy", "simple-shuffle")
        policy = self._tables["policies"].get(strategy)
        if policy is None:
            self._miss(
                "router_settings.routing_strategy", f'"{strategy}" has no match here; round_robin is used'
            )
            policy = "round_robin"
        fallbacks = {**_fallbacks(settings), **_fallbacks(router)}
        breaker = {
            ours: router[theirs]
            for theirs, ours in (("allowed_fails", "failures"), ("cooldown_time", "recovery"))
            if isinstance(router.get(theirs), int | float)
        }
        retries = router.get("num_retries", settings.get("num_retries"))
        profiles: dict[str, dict[str, Any]] = {}
        aliases: dict[str, str] = {}
        for name, routes in self._groups.items():
            after = [
                route
                for other in fallbacks.get(name, fallbacks.get("*", []))
                for route, _ in self._groups.get(other, [])
            ]
            members = list(dict.fromkeys([*(route for route, _ in routes), *after]))
            if len(members) == 1:
                aliases[name] = members[0]
                continue
            profile: dict[str, Any] = {"members": members, "policy": "failover" if after else policy}
            if after and len(routes) > 1:
                self._miss(
                    f"fallbacks of {name}", "its own routes are tried in order before them, not balanced"
                )
            if not after and policy == "weighted":
                profile["weights"] = dict(routes)
            if isinstance(retries, int):
                profile["retry"] = {"attempts": max(1, retries + 1)}
            if breaker:
                profile["breaker"] = breaker
            profiles[name] = profile
        aliases |= self._group_aliases(router, {*profiles, *aliases})
        for place, table in (("router_settings", router), ("litellm_settings", settings)):
            for name in table:
                if name not in _KNOWN_SETTINGS:
                    self._miss(f"{place}.{name}", "has no match here")
        return profiles, aliases

    def _group_aliases(self, router: Mapping[str, Any], known: set[str]) -> dict[str, str]:
        """Other names of a group of models."""
        found: dict[str, str] = {}
        for name, target in _table(router, "model_group_alias").items():
            meant = target.get("model") if isinstance(target, Mapping) else target
            place = f"router_settings.model_group_alias.{name}"
            if meant not in known:
                self._miss(place, f"{meant} is not in the model_list")
                continue
            if isinstance(target, Mapping) and target.get("hidden"):
                self._miss(f"{place}.hidden", "lists of models show every name")
            found[name] = meant
        return found

    def _gateway(
        self, general: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> list[tuple[str, dict[str, Any]]]:
        tables: list[tuple[str, dict[str, Any]]] = []
        if self._patterns:
            tables.append(("gateway.models", dict(self._patterns)))
        router = _table(self._config, "router_settings")
        limit = router.get("timeout", settings.get("request_timeout"))
        if isinstance(limit, int | float):
            tables.append(("gateway.limits", {"reply_timeout": float(limit)}))
        master = general.get("master_key")
        if isinstance(master, str) and master.startswith(_ENVIRON):
            operator = {"key_env": master.removeprefix(_ENVIRON), "admin": True}
            tables.append(("gateway.callers.admin", operator))
        elif master:
            self._miss(
                "general_settings.master_key", "a key is not copied: segue gateway keys create NAME --admin"
            )
        for name in general:
            if name == "database_url":
                self._miss(
                    "general_settings.database_url",
                    "virtual keys are not copied: segue gateway keys create NAME",
                )
            elif name != "master_key":
                self._miss(f"general_settings.{name}", "has no match here")
        return tables


@cache
def _tables() -> dict[str, dict[str, str]]:
    return tomllib.loads(files(__package__).joinpath("litellm.toml").read_text("utf-8"))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _of_a_second(provider: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a provider by its name, for one of another name."""
    from segue.providers.hosts.addresses import addresses, complete_url  # noqa: PLC0415 - only for a second one of a kind

    address = addresses().providers.get(provider)
    if address is None:
        return {}
    if (
        address.service or address.token
    ):  # a cloud: its envelope and its credentials cannot be said by settings
        return {"like": provider}
    # Where every user has another address, LiteLLM's configuration names it.
    given = settings.get("base_url", "") or ("" if address.places else address.base_url)
    known: dict[str, Any] = {
        "dialect": settings.get("dialect", address.dialects[0]),
        "base_url": given,
    }
    with suppress(UsageError):  # what is wrong with an address, the check of the configuration tells
        known["base_url"] = complete_url(given, address)
    if address.auth != "bearer":
        known["auth"] = address.auth
    if address.headers:
        known["headers"] = dict(address.headers)
    return known


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _fallbacks(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """A list of tables with one entry each, as LiteLLM writes them."""
    found: dict[str, list[str]] = {}
    for kind in ("context_window_fallbacks", "fallbacks"):
        for entry in settings.get(kind) or []:
            if isinstance(entry, Mapping):
                found |= {name: others for name, others in entry.items() if isinstance(others, list)}
    if isinstance(others := settings.get("default_fallbacks"), list):
        found["*"] = others
    return found


def _toml(tables: Sequence[tuple[str, dict[str, Any]]]) -> str:
    sections = [
        "\n".join([f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())])
        for name, table in tables
        if table
    ]
    return "\n\n".join(sections) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
