"""Errors as a client of a wire gets them: envelope, status and headers come from its dialect."""

from __future__ import annotations

import logging
import math
import re
from copy import copy
from traceback import format_tb
from typing import TYPE_CHECKING, Final

from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    JournalError,
    OverloadError,
    ProtocolError,
    ProviderError,
    QuotaError,
    RateLimitError,
    RouteBusyError,
    RouteError,
    RouteTooSmallError,
    SegueError,
    TransportError,
)
from segue.exchange.remedies import WOULD_LOSE
from segue.gateway.requests.web import JSON_TYPE, WebResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.dialects.dialect import Dialect
    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.budget_rules import Refusal
    from segue.gateway.requests.web import ResponseWriter, WebRequest
    from segue.transcript.repairs import Repair

_LOG: Final = logging.getLogger("segue.gateway")


def error_response(error: SegueError, dialect: Dialect) -> WebResponse:
    shown = for_client(error)
    status, body = dialect.encode_error(shown)
    headers = {"content-type": JSON_TYPE, **dialect.server.error_headers(shown)}
    return WebResponse(status=status, headers=headers, body=body)


def for_client(error: SegueError) -> SegueError:
    """The error that a wire has a word for. A client knows no routes and no addresses, and our keys are not its keys."""
    error = _plain(error)
    match error:
        case RouteTooSmallError():
            return ContextLengthError(error.message, code="context_length_exceeded", hint=error.hint)
        case RouteBusyError():
            limited = {type(failure) for _, failure in error.failures} == {RateLimitError}
            kind = RateLimitError if limited else OverloadError
            return kind(error.message, hint=error.hint, retry_after=error.retry_after)
        case RouteError():
            return _for_all_members(error)
        case JournalError():
            # Where the store is, and what it says, is the operator's affair.
            return OverloadError(
                "The gateway's store cannot be used now.", code="store_away", retry_after=STORE_AWAY_SECONDS
            )
        case CredentialsError() if error.status is not None or error.code != CALLER:
            return ProviderError(
                f"The provider does not accept the gateway's key: {error.message}",
                code="provider_credentials",
                hint="The operator of the gateway has to correct it.",
                request_id=error.request_id,
            )
        case _:
            return error


def _for_all_members(error: RouteError) -> SegueError:
    """No member of a profile answered, and to ask again does not help. Where all have the same against the request, the client
    gets that: it would send the same again after an error that could pass."""
    failures = [failure for _, failure in error.failures]
    if len({type(failure) for failure in failures}) != 1 or not isinstance(failures[0], ProviderError):
        return ProviderError(error.message, code=error.code, hint=error.hint)
    shown = copy(failures[0])
    shown.message, shown.hint, shown.args = error.message, error.hint, (error.message,)
    shown.retry_after = None
    return for_client(shown)


_PLAIN: Final[Mapping[str, str]] = {
    "unexpected": "Something unexpected happened while {} was asked.",
    "redirect": "{} answered with a redirect, and redirects are not followed.",
}
"""By code: what our own texts say in more detail than a client may know."""


def _plain(error: SegueError) -> SegueError:
    """The error with the provider's name where its address was. Who failed is named where only we can tell."""
    message, hint = error.message, error.hint
    members = error.members if isinstance(error, ProviderError) else {}
    written = repr(members)
    if members and any(address in written for address, _ in _addresses(error)):
        members = {}
    for address, name in _addresses(error):
        # Whatever follows the address is the path of the request, without the end of the sentence.
        place = re.compile(re.escape(address) + r'(?:[^\s"]*[^\s".,:;])?')
        message = place.sub(name, message)
        hint = "" if address in hint else hint  # advice for the operator of the gateway
    if error.provider and error.code in _PLAIN:
        message = _PLAIN[error.code].format(error.provider)
    if error.provider not in message and isinstance(error, (TransportError, ProtocolError)):
        message = f"{error.provider}: {message}"
    kept = not isinstance(error, ProviderError) or members is error.members
    if kept and (message, hint) == (error.message, error.hint):
        return error
    shown = copy(error)
    if isinstance(shown, ProviderError):
        shown.members = members
    shown.message, shown.hint, shown.args = message, hint, (message,)
    return shown


def _addresses(error: BaseException | None) -> Iterator[tuple[str, str]]:
    """Every address that the text of an error may hold, and whose it is."""
    if not isinstance(error, SegueError):
        return
    if error.address:
        yield error.address, error.provider
    for _, failure in error.failures if isinstance(error, RouteError) else ():
        yield from _addresses(failure)
    yield from _addresses(error.__cause__)


STORE_AWAY_SECONDS: Final = 5.0
CALLER = "unknown_caller"
"""The code of the error for a client without a key that is known here."""


_TOKENS: Final = (
    (re.compile(r"ya29\."), "Google"),
    (re.compile(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]*$"), "Microsoft or another issuer"),
)
"""How tokens of clouds begin, which their SDKs send of their own accord."""


def caller_error(keys: Sequence[str] = ()) -> CredentialsError:
    """Whoever sends a cloud's token is told so: nobody here can verify it, so it opens nothing."""
    cloud = next((name for key in keys for form, name in _TOKENS if form.match(key)), "")
    if cloud:
        return CredentialsError(
            f"This is a token of {cloud}, and the gateway takes the keys of its own callers only.",
            code=CALLER,
            hint="Give the client the key of a caller in place of the token: see docs/gateway.md.",
        )
    return CredentialsError(
        "The gateway does not know this key.",
        code=CALLER,
        hint="Send the key of a caller: the operator of the gateway can make one.",
    )


def signature_error(problem: str, advice: str) -> CredentialsError:
    """For a client that signs its requests with anything but its key."""
    return CredentialsError(f"{problem} {advice}", code=CALLER, hint=advice)


def path_error(request: WebRequest) -> InvalidRequestError:
    return InvalidRequestError(
        f"There is no {request.method} {request.path} here.",
        code="not_found",
        status=404,
        hint="Check the base URL of the client: see docs/gateway.md.",
    )


def busy_error(why: str) -> OverloadError:
    """The gateway itself cannot serve the request now."""
    return OverloadError(
        f"The gateway {why}.", code="gateway_busy", retry_after=1.0, hint="Try again in a moment."
    )


_LIMITS = {
    "requests": "has reached its limit of requests per minute",
    "tokens": "has reached its limit of tokens per minute",
    "concurrent": "has reached its limit of requests at a time",
    "reserved": "has requests running that may need all that is left of its budget",
}


def limit_error(account: Account, refusal: Refusal) -> RateLimitError | QuotaError:
    """The caller has to wait, or its money is spent: then to try again does not help."""
    if refusal.limit in _LIMITS:
        return RateLimitError(
            f"The caller {account.name} {_LIMITS[refusal.limit]}.",
            code=f"caller_{refusal.limit}",
            retry_after=refusal.wait,
            hint=f"Try again in {max(1, math.ceil(refusal.wait))} s.",
        )
    limits = account.allowance
    dollars = limits.dollars_per_day if refusal.limit == "day" else limits.dollars_per_month
    return QuotaError(
        f"The caller {account.name} has spent its budget of ${dollars:g} for this {refusal.limit}.",
        code="budget_spent",
        hint="The operator of the gateway can raise it.",
    )


def model_error(account: Account, asked: str) -> InvalidRequestError:
    """The caller may not use this model."""
    return InvalidRequestError(
        f'The caller {account.name} may not use the model "{asked}".',
        code="model_not_allowed",
        path="model",
        status=403,
        hint=f"It may use: {', '.join(account.allowance.models)}.",
    )


def unexpected(error: Exception, request_id: str) -> SegueError:
    """Any exception as an error that can be sent."""
    _log_defect(error, request_id)
    wrapped = SegueError(
        "Something unexpected happened in the gateway.",
        code="unexpected",
        hint=f"This is a defect; please report it with what the gateway's log holds about the request {request_id}.",
    )
    wrapped.__cause__ = error
    return wrapped


def log_failure(error: SegueError, route: str, request_id: str) -> None:
    """What clients are not told of a provider that failed: the address, and what happened in the words of Python."""
    if error.code == "unexpected" and error.__cause__ is not None:
        _log_defect(error.__cause__, request_id)
    elif isinstance(error, TransportError):
        kind = type(error.__cause__).__name__ if error.__cause__ is not None else error.code
        _LOG.warning("Request %s, %s: %s (%s)", request_id, route, error.message, kind)


def _log_defect(error: BaseException, request_id: str) -> None:
    """Where it happened: its text could hold content or a key."""
    places = "".join(format_tb(error.__traceback__))
    _LOG.error("Request %s failed with %s:\n%s", request_id, type(error).__name__, places)


def counts_of(repairs: Sequence[Repair]) -> str:
    """Repairs for a header: each kind with its number."""
    return ", ".join([f"{kind}={count}" for kind, count in number_of_kinds(repairs).items()])


def number_of_kinds(repairs: Sequence[Repair]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for repair in repairs:
        counts[repair.kind] = counts.get(repair.kind, 0) + 1
    return counts


def strict_error(losses: Sequence[Repair], route: str, *, refusal: str = "") -> InvalidRequestError:
    """The client refuses losses, and this route would get less. `refusal`: what the provider has against all of it."""
    why = f" The provider refuses it as it is: {refusal}" if refusal else ""
    return InvalidRequestError(
        f"{route} would not get all of this conversation: {counts_of(losses)}.{why}",
        code=WOULD_LOSE,
        status=422,
        hint="Without x-segue-strict the request is sent all the same.",
    )


def choices_error(dialect: Dialect, wanted: int) -> InvalidRequestError:
    """Only the wire's own provider, which gets the client's bytes, gives several replies to one request."""
    field = ".".join(dialect.server.choices_field)
    return InvalidRequestError(
        f"{field} is {wanted}, and this model gives one reply to a request here.",
        code="several_choices",
        status=400,
        path=field,
        hint=f"Send the request {wanted} times without {field}.",
    )


async def write_error(writer: ResponseWriter, error: SegueError, dialect: Dialect) -> None:
    """As the response, or as the end of one that has begun."""
    if writer.started:
        last = dialect.server.error_frame(for_client(error))
        if writer.reframe is not None:
            last = writer.reframe.feed(last) + writer.reframe.close()
        await writer.end(last)
    else:
        await writer.whole(error_response(error, dialect))
