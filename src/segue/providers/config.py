"""The configuration of a provider, and all problems with it in one list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, final

import msgspec
from msgspec import Struct, structs

from segue.dialects.registry import proper_name
from segue.errors import UsageError
from segue.providers.capabilities import ConfigProblem
from segue.providers.credentials.keys import Secret
from segue.providers.hosts.addresses import AuthStyle, address_of, base_url_of, unknown_like
from segue.text.redaction import remember_secret_variable
from segue.text.suggestions import suggestion
from segue.transports.transport import ReplyLimits, Timeouts

IN_PROCESS: Final[Mapping[str, tuple[str, ...]]] = {
    "embedded": ("model", "threads", "context"),
    "scripted": (),
}
"""Providers that run in this process and have no address, with the settings that they take."""
_HERE_ONLY: Final = ("threads",)
_COUNTS: Final = ("threads", "context")
_SECRETS: Final = frozenset({"api_key", "headers", "key_command"})
_TABLES: Final[Mapping[str, type[Timeouts | ReplyLimits]]] = {"timeouts": Timeouts, "limits": ReplyLimits}
_TYPE_HINTS: Final = {
    "": "Correct its type.",
    "timeouts.": "Give seconds.",
    "limits.": "Give a whole number.",
}


@final
class ProviderConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one provider. What is not set has the default of the provider."""

    base_url: str = ""
    api_key: Secret | str | None = None
    """A text becomes a `Secret` at once, so that it is never shown."""
    api_key_env: str = ""
    """The variable that holds the key."""
    key_command: str = ""
    """A command that prints the key."""
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    api_version: str = ""
    organization: str = ""
    project: str = ""
    """Of OpenAI, or of Google Cloud."""
    location: str = ""
    """Where in Google Cloud: a region, `us`, `eu` or `global`."""
    resource: str = ""
    """The name of a resource in Azure."""
    account: str = ""
    gateway: str = ""
    """Of Cloudflare."""
    workspace: str = ""
    """Of Claude on Google Cloud, or of Claude Platform on AWS."""
    quota_project: str = ""
    """Who pays in Google Cloud, if that is another project."""
    credentials: Literal["", "key", "adc", "entra"] = ""
    """What to sign in with: a key, or a token of Google or Microsoft. Empty: a key if there is one."""
    scope: str = ""
    """What such a token is for."""
    like: str = ""
    """The provider that this one is another account, resource or region of."""
    model_of: str | Mapping[str, str] = {}
    """The models behind names that do not show them, such as those of deployments: by name, or one for all."""
    region: str = ""
    """Of AWS."""
    profile: str = ""
    """In the files of AWS's own tools."""
    dialect: str = ""
    auth: AuthStyle | None = None
    timeouts: Timeouts = Timeouts()
    limits: ReplyLimits = ReplyLimits()
    """What the server may send."""
    model: str = ""
    embedding_model: str = ""
    threads: int | None = None
    """Of a model in this process."""
    context: int | None = None
    """Tokens that its models can read and write, where it should not be what is known of them."""

    def __post_init__(self) -> None:
        if self.api_key_env:
            remember_secret_variable(self.api_key_env)
        if isinstance(self.api_key, str):
            structs.force_setattr(self, "api_key", Secret(self.api_key))
        elif self.api_key is not None and not isinstance(self.api_key, Secret):
            raise UsageError(
                f"api_key is a {type(self.api_key).__name__}.",
                code="bad_key",
                hint="Give a text or a Secret.",
            )

    def model_behind(self, name: str) -> str:
        """The model behind a name of one's own; the name itself where nothing else is known."""
        behind = self.model_of
        return (behind or name) if isinstance(behind, str) else behind.get(name, name)

    @property
    def set_fields(self) -> list[str]:
        """The names of the settings that are set."""
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(_NOTHING, name)]

    def __repr__(self) -> str:
        return f"ProviderConfig({', '.join(self.set_fields)})"


_NOTHING: Final = ProviderConfig()


def read_provider_config(
    name: str, table: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> tuple[ProviderConfig, list[ConfigProblem]]:
    """The configuration in a parsed table, with what is sound in it, and all that is not."""
    problems: list[ConfigProblem] = []
    config = ProviderConfig(**_read_fields(name, ProviderConfig, table, problems))
    return config, problems + check_config(name, config, environ)


def _read_fields(
    name: str, kind: type[Struct], table: Mapping[str, Any], problems: list[ConfigProblem], within: str = ""
) -> dict[str, Any]:
    """The sound fields of a table. `within`: the name of an inner table, with a dot."""
    sound: dict[str, Any] = {}
    types = {field.name: field.type for field in structs.fields(kind)}
    for key, value in table.items():
        place = f"{within}{key}"
        if key not in types:
            problems.append(_unknown(name, place, [f"{within}{known}" for known in types]))
        elif key in _TABLES and isinstance(value, Mapping):
            inner = _TABLES[key]
            sound[key] = inner(**_read_fields(name, inner, value, problems, f"{key}."))
        else:
            try:
                sound[key] = _read(types[key], value)
            except (msgspec.ValidationError, UnicodeError) as error:
                problems.append(_problem(name, place, value, f"{_plain(error)}.", _TYPE_HINTS[within]))
    return sound


def check_config(
    name: str, config: ProviderConfig, environ: Mapping[str, str] | None = None
) -> list[ConfigProblem]:
    """The problems of a configuration, found without a request. `environ` may hold what is missing in it."""
    problems = _check_use(name, config)
    if name in IN_PROCESS:
        return problems
    address = address_of(name, config)
    if config.dialect:
        try:
            proper_name(config.dialect)
        except UsageError as error:
            problems.append(_problem(name, "dialect", config.dialect, error.message, error.hint))
    if (unlike := unknown_like(name, config)) is not None:
        return [*problems, _problem(name, "like", config.like, unlike.message, unlike.hint)]
    if address is None:
        hint = "Give it a base_url, or use the name of a provider that is known."
        problems.append(_problem(name, "base_url", "", f'Unknown provider "{name}".', hint))
        return problems
    try:
        base_url_of(address, config, environ or {})
    except UsageError as error:
        at = error.path.rpartition(".")[2]
        problems.append(_problem(name, at, getattr(config, at, ""), error.message, error.hint))
    return [*problems, *_check_keys(name, config), *_check_limits(name, config)]


def _check_use(name: str, config: ProviderConfig) -> list[ConfigProblem]:
    """Settings that this provider does not use, and impossible numbers."""
    here = name in IN_PROCESS
    unused = (
        set(config.set_fields) - set(IN_PROCESS[name]) if here else {*config.set_fields} & set(_HERE_ONLY)
    )
    why = f"It is not used by a provider that {'answers in this process' if here else 'is a server'}."
    return [
        *(_problem(name, field, "***", why, "Remove it.") for field in config.set_fields if field in unused),
        *(
            _problem(name, field, value, "It must be at least 1.", "Correct it.")
            for field in _COUNTS
            if field not in unused and (value := getattr(config, field)) is not None and value < 1
        ),
    ]


def _check_keys(name: str, config: ProviderConfig) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    ways = [way for way in ("api_key", "api_key_env", "key_command") if getattr(config, way)]
    if len(ways) > 1:
        message = f"The key is set in {len(ways)} ways: {', '.join(ways)}."
        problems.append(_problem(name, ways[1], "***", message, f"Keep one; {ways[0]} would be used."))
    if config.api_key is not None and not config.api_key:
        problems.append(_problem(name, "api_key", "", "The key is empty.", "Remove it or fill it in."))
    for header, value in config.headers.items():
        at = f"headers.{header}"
        if not header.isascii() or not header.replace("-", "").replace("_", "").isalnum():
            problems.append(_problem(name, at, "***", "This is not a header name.", "Rename it."))
        if not value.isprintable():
            hint = "Remove line breaks from it."
            problems.append(_problem(name, at, "***", "A header must not contain this.", hint))
    return problems


def _check_limits(name: str, config: ProviderConfig) -> list[ConfigProblem]:
    checks = (
        ("timeouts", config.timeouts, "A timeout must be longer than 0 s.", "Give seconds above 0."),
        ("limits", config.limits, "A limit must be above 0.", "Give a number above 0."),
    )
    return [
        _problem(name, f"{table}.{field}", str(value), message, hint)
        for table, values, message, hint in checks
        for field, value in structs.asdict(values).items()
        if value is not None and value <= 0
    ]


def _read(wanted: Any, value: Any) -> Any:
    if wanted == Secret | str | None:
        return Secret(msgspec.convert(value, str))
    return msgspec.convert(value, wanted, strict=True)


def _unknown(name: str, key: str, known: Sequence[str]) -> ConfigProblem:
    hint = suggestion(key, known) or f"Known are: {', '.join(known)}."
    return _problem(name, key, "***", "This setting does not exist.", hint)


def _problem(name: str, key: str, value: object, message: str, hint: str) -> ConfigProblem:
    shown = "***" if value and key.partition(".")[0] in _SECRETS else str(value)
    return ConfigProblem(field=f"providers.{name}.{key}", message=message, value=shown[:200], hint=hint)


def _plain(error: msgspec.ValidationError | UnicodeError) -> str:
    # Even the message about a lone surrogate cannot be made.
    return "not text" if isinstance(error, UnicodeError) else str(error).partition(" - at `")[0]
