"""Patterns for addresses: `https://*.example.org/docs/*`.

Scheme, host, port and path are matched apart, each after it was read as a browser would read it, so that no `*` reaches
from one into the next: `https://*.example.org/*` is not about `https://evil.test/.example.org/`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias, final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

_PORTS: Final = {"http": "80", "https": "443"}
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Programs disagree about where a host ends when one of these is in an address."""
_PATTERN: Final = re.compile(
    r"(?P<scheme>[\w+.*-]+)://(?P<host>\[[^\]/]*\]|[^/?#:@]+)(?::(?P<port>[\d*]+))?(?P<rest>[/?#].*)?",
    re.DOTALL,
)
_ANY: Final = re.compile(".*", re.DOTALL)
Expression: TypeAlias = re.Pattern[str]


@final
class _Address(Struct, frozen=True):
    scheme: str
    host: str
    port: str
    rest: str
    """Path, query and fragment."""


def matches_url(url: str, pattern: str) -> bool:
    """Whether a pattern is about an address. Its `*` stays within the host, or within one step of the path; at the end of
    a path it is about everything below. Without a port only the usual one is meant."""
    address, wanted = _read(url), _wanted(pattern)
    if address is None or wanted is None:
        return False
    scheme, host, port, rest = wanted
    usual = _PORTS.get(address.scheme, "")
    port_fits = address.port == usual if port is None else bool(port.fullmatch(address.port))
    return bool(
        port_fits
        and scheme.fullmatch(address.scheme)
        and host.fullmatch(address.host)
        and rest.fullmatch(address.rest)
    )


def matches_origin(origin: str, pattern: str) -> bool:
    """Whether a pattern is about the origin of a web page: scheme, host and port; `*` is about every page."""
    return pattern == "*" or (origin.count("/") == 2 and matches_url(origin, pattern.rstrip("/")))


@lru_cache(maxsize=256)
def _wanted(pattern: str) -> tuple[Expression, Expression, Expression | None, Expression] | None:
    found = _PATTERN.fullmatch(pattern.strip())
    if found is None:
        return None
    host, rest = found["host"].lower().rstrip("."), found["rest"] or "/"
    if host == "*" and found["rest"] is None:
        path = _ANY
    elif rest.endswith("/*"):
        path = re.compile(_expression(rest[:-1], "[^/?#]").pattern + ".*", re.DOTALL)
    else:
        path = _expression(rest, "[^/?#]")
    port = None if found["port"] is None else _expression(found["port"], r"\d")
    return _expression(found["scheme"].lower(), r"[\w+.-]"), _expression(host, r"[^/?#@:\[\]]"), port, path


def _expression(glob: str, letter: str) -> Expression:
    """A glob in which `*` stands for such letters only."""
    return re.compile(f"{letter}*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def _read(url: str) -> _Address | None:
    """The parts of an address; None if programs could read it in two ways."""
    url = url.strip()
    if _UNSAFE.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if not host or "@" in parts.netloc:
        return None
    whole = url.partition("://")[2][len(parts.netloc) :]
    path = re.split(r"[?#]", whole, maxsplit=1)[0]
    return _Address(
        parts.scheme,
        f"[{host}]" if ":" in host else host.rstrip("."),
        _PORTS.get(parts.scheme, "") if port is None else str(port),
        _resolved(path) + whole[len(path) :],
    )


def _resolved(path: str) -> str:
    """The path after its dots, also those that are written as %2e; an empty one is `/`."""
    steps: list[str] = []
    pieces = path.split("/")[1:] or [""]
    for number, step in enumerate(pieces, 1):
        plain = unquote(step)
        if plain == "..":
            steps[-1:] = []
        if plain in (".", ".."):
            steps += [""] if number == len(pieces) else []
        else:
            steps.append(step)
    return "/" + "/".join(steps)
