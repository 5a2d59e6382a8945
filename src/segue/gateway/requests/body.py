"""The body of a request: read within its limits, and counted in the budget of the process before anybody looks into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from segue.errors import InvalidRequestError
from segue.gateway.requests.byte_budget import VALUE_BYTES, most_values, values_in
from segue.gateway.requests.web import ClientGoneError

if TYPE_CHECKING:
    from segue.config.schema import GatewayLimits
    from segue.gateway.requests.byte_budget import Holding
    from segue.gateway.requests.web import Receive, WebRequest
    from segue.transports.deadline import Deadline


IN_TEXTS: Final = 5
"""So many times as many signs of JSON may stand in texts as outside of them."""


async def read_body(
    receive: Receive, head: WebRequest, limits: GatewayLimits, deadline: Deadline, held: Holding
) -> bytes:
    """The body, which is held from now on. Raises when it is compressed, is too large, does not arrive in time, or there is no
    room for it."""
    encoding = head.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise InvalidRequestError(
            f'Requests compressed with "{encoding[:50]}" are not served here.',
            code="unsupported_encoding",
            status=415,
            hint="Send the body as it is, without content-encoding.",
        )
    announced = head.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:18]) > limits.body_bytes:
        raise _too_large(limits.body_bytes)
    portions: list[bytes] = []
    size, more = 0, True
    deadline.begin(limits.body_timeout)
    try:
        with deadline:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                portions.append(message.get("body", b""))
                size += len(portions[-1])
                if size > limits.body_bytes:
                    raise _too_large(limits.body_bytes)
                held.add(len(portions[-1]))
                more = message.get("more_body", False)
    except TimeoutError:
        raise InvalidRequestError(
            f"The request did not arrive within {limits.body_timeout:g} s.",
            code="request_timeout",
            status=408,
            hint="Send it again, or raise gateway.limits.body_timeout.",
        ) from None
    body = portions[0] if len(portions) == 1 else b"".join(portions)
    held.add(VALUE_BYTES * _checked_values(body, limits.values))
    return body


def check_messages(body: bytes, field: str, most: int) -> None:
    """Raises if a body holds more messages than that. It is not read for it: messages take twenty times their bytes."""
    try:
        messages = _OUTLINE.decode(body).get(field)
        count = len(_PIECES.decode(messages)) if messages is not None else 0
    except (msgspec.DecodeError, UnicodeDecodeError):
        return  # whoever reads it reports what is wrong
    if count > most:
        raise too_many_messages(most)


def too_many_messages(most: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"The conversation has more than {most} messages.",
        code="too_many_messages",
        status=413,
        hint="Shorten the conversation, or raise gateway.limits.messages.",
    )


_OUTLINE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PIECES: Final = msgspec.json.Decoder(list[msgspec.Raw])


def _checked_values(body: bytes, most: int) -> int:
    """How many values of JSON there are at most, in texts too: arguments of calls are JSON in a text. Raises if they are too many:
    each takes memory and time, however short it is."""
    values = most_values(body)
    if values <= most or (values <= IN_TEXTS * most and values_in(body, most) <= most):
        return values
    raise InvalidRequestError(
        f"The request holds more than {most} values of JSON, or {IN_TEXTS} times as many in its texts.",
        code="too_many_values",
        status=413,
        hint="Shorten the conversation or its tools, or raise gateway.limits.values.",
    )


def _too_large(most: int) -> InvalidRequestError:
    return InvalidRequestError(
        f"The request is larger than {most} bytes.",
        code="request_too_large",
        status=413,
        hint="Shorten the conversation, or raise gateway.limits.body_bytes.",
    )
