"""Base URLs: what is configured, or in the environment, or known, with its places filled in. A place is a part of an address that
every user has another of, such as a project or a resource."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segue.errors import UsageError
from segue.providers.hosts.addresses import complete_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.providers.config import ProviderConfig
    from segue.providers.hosts.addresses import Address

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
