"""What can go wrong between here and a server, in words without the address of anything secret."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final

from segue.errors import TransportError, UsageError

if TYPE_CHECKING:
    from segue.transports.transport import WireRequest

_OTHER_HOST: Final = frozenset({62, 64})
"""OpenSSL's numbers, for names and for addresses; its texts name the host."""


def unreachable(place: str, why: str) -> TransportError:
    return TransportError(
        f"Failed to connect to {place}: {why}.",
        code="CONNECTION_FAILED",
        hint="Check the address, and that the server runs.",
    )


def unsent(place: str) -> TransportError:
    """The cause of a cancellation while a connection is awaited: it says that the request costs nothing."""
    error = unreachable(place, "the request was given up")
    error.unbilled = True
    return error


def broken(place: str, why: str) -> TransportError:
    return TransportError(
        f"The connection to {place} broke off: {why}.",
        code="connection_broken",
        hint="Try again.",
    )


def bad_url(request: WireRequest) -> UsageError:
    return UsageError(
        f'"{request.place}" is no address.', code="bad_url", hint="Write it as http://host:port/path."
    )


def bad_header(request: WireRequest) -> UsageError:
    return UsageError(
        f"A header of the request to {request.place} holds characters that no header may hold.",
        code="bad_header",
        hint="Look for line breaks in keys and headers.",
    )


def reason_of(error: BaseException) -> str:
    """Why, in the words of the system: empty if it has none."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _distrust(error)
    if isinstance(error, ssl.SSLError):  # its number is no number of the system
        words = str(error.reason or "").replace("_", " ").lower()
        return f"no secure connection: {words}" if words else "no secure connection"
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    reason = getattr(error, "strerror", None)
    return str(reason).rstrip(".") if reason else ""


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    words = "the server's certificate is not trusted"
    if getattr(error, "verify_code", 0) in _OTHER_HOST:
        return f"{words}: it is for another host"
    why = str(getattr(error, "verify_message", "") or "").rstrip(".")
    return f"{words}: {why}" if why else words
