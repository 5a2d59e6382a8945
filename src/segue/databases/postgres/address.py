"""Where a database is, as one URL. What is shown of it never holds the password."""

from __future__ import annotations

import re
from typing import Final, final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

from segue.errors import UsageError
from segue.text.redaction import remember_secret

SCHEMES: Final = ("postgresql", "postgres")
SCHEMA: Final = "segue"
CONNECTIONS: Final = 8
_HOST: Final = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^:\[\]]*)(?::[0-9]{0,5})?")
_NAME: Final = re.compile("[a-z_][a-z0-9_]{0,39}")


@final
class DatabaseAddress(Struct, frozen=True):
    """How to reach a database, and which of its schemas is ours."""

    url: str
    """With the password: for the driver alone."""
    shown: str
    """For people."""
    schema: str = SCHEMA
    connections: int = CONNECTIONS
    """At most so many at a time, of one process."""
    password: str = ""

    def __repr__(self) -> str:
        return f"DatabaseAddress({self.shown!r}, schema={self.schema!r})"


def is_database_url(text: str) -> bool:
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def read_address(url: str) -> DatabaseAddress:
    """Raises UsageError `bad_store_url`, which never repeats the URL: it may hold a password."""
    if not is_database_url(url):
        raise bad_url("it begins with neither postgresql:// nor postgres://")
    try:
        parts = urlsplit(url)
        fields = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise bad_url("it is not a URL") from error
    ours = {name: value for name, value in fields if name in ("schema", "connections")}
    schema = ours.get("schema", SCHEMA)
    if not _NAME.fullmatch(schema):
        raise bad_url("its schema is not a name of up to 40 small letters, digits and underscores")
    connections = ours.get("connections", str(CONNECTIONS))
    if not connections.isdecimal() or not 1 <= int(connections) <= 1000:
        raise bad_url("its connections are not a number from 1 to 1000")
    theirs = [(name, value) for name, value in fields if name not in ours]
    place, _, host = parts.netloc.rpartition("@")
    if not all(_HOST.fullmatch(one) for one in host.split(",")):
        raise bad_url("its host is not a name or address, with a port that is a number")
    user, _, password = place.partition(":")
    password = next((value for name, value in theirs if name == "password"), unquote(password))
    remember_secret(password)
    query = urlencode(theirs, quote_via=quote)
    shown = [(name, value) for name, value in theirs if name in ("host", "port", "user", "dbname", "sslmode")]
    visible = f"{user}@{host}" if user else host
    return DatabaseAddress(
        url=_joined(parts.netloc, parts.path, query),
        shown=_joined(visible, parts.path, urlencode(shown, safe="/")),
        schema=schema,
        connections=int(connections),
        password=password,
    )


def _joined(place: str, path: str, query: str) -> str:
    return f"{SCHEMES[0]}://{place}{path}{'?' if query else ''}{query}"


def bad_url(why: str) -> UsageError:
    return UsageError(
        f"The address of the database cannot be used: {why}.",
        code="bad_store_url",
        path="store",
        hint="For example: postgresql://user:password@host:5432/database. Special characters are written as %40.",
    )
