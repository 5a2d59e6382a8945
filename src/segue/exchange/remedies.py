"""What may help after a refusal: one list, in one order, for whoever asks.

A remedy changes what is known of the model, or what is asked; then the same route is asked again. Each is tried once at a
route. What is known of a model before it is asked needs none: `fitted_to_model` puts it in words at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.dialects.errors import TOOLS_UNSUPPORTED, refuses_stream
from segue.errors import InvalidRequestError, ProviderError, SegueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from segue.exchange.attempt import Attempt
    from segue.exchange.exchange import Asker
    from segue.routing.route import Route

    Remedying = Callable[[Asker, Route, Attempt | None, SegueError], Awaitable[bool]]

WOULD_LOSE: Final = "would_lose"
"""The code of the error for a client that refuses losses."""


_LOST: Final = frozenset({400, 403, 404, 409, 410, 422})
"""Whatever the words: providers have several for one loss."""


def is_refusal(error: SegueError) -> bool:
    """Whether the provider did not accept the request as it is."""
    if not isinstance(error, InvalidRequestError) or error.code == WOULD_LOSE:
        return False
    # What is not found may also be an item of the history, which this account does not keep.
    missing = error.status == 404 and error.path not in ("", "model")
    return missing or error.status in (400, 422)


async def send_whole(asker: Asker, route: Route, attempt: Attempt | None, error: SegueError) -> bool:
    """A provider that refuses what builds on its own state may have lost that: it gets everything."""
    if attempt is None or not attempt.shortcut or not isinstance(error, ProviderError):
        return False
    lost = error.status in _LOST or (error.status is None and isinstance(error, InvalidRequestError))
    return lost and await asker.send_whole(route, attempt)


async def hold_nothing(asker: Asker, route: Route, attempt: Attempt | None, error: SegueError) -> bool:
    """One that does not hold conversations, for this account or this request, is not asked to."""
    if attempt is None or not attempt.begins_state or not isinstance(error, InvalidRequestError):
        return False
    return await asker.hold_nothing(route, error)


async def describe_tools(_: Asker, route: Route, attempt: Attempt | None, error: SegueError) -> bool:
    """A model that takes no tools gets them in words."""
    # The provider may have learned it with this very request, so what it knows now does not count.
    if attempt is None or error.code != TOOLS_UNSUPPORTED or not attempt.request.tools:
        return False
    attempt.provider.learn_lack(route.model, "tools")
    return True


async def ask_whole(_: Asker, route: Route, attempt: Attempt | None, error: SegueError) -> bool:
    """One that does not stream is asked for whole replies. A provider does so by itself with requests of its own making."""
    if attempt is None or not (attempt.forwarded and attempt.streamed and refuses_stream(error)):
        return False
    attempt.provider.learn_lack(route.model, "stream")
    return True


async def shrink(asker: Asker, route: Route, _: Attempt | None, error: SegueError) -> bool:
    """A conversation that is too long is made shorter, if it is ours."""
    return error.remedy == "shrink" and await asker.shrink(route, error)


async def simplify(asker: Asker, route: Route, attempt: Attempt | None, error: SegueError) -> bool:
    """A request with something that only another account or model may know is sent without it."""
    return attempt is not None and is_refusal(error) and await asker.simplify(route, attempt, error)


REMEDIES: Final[tuple[Remedying, ...]] = (
    send_whole,
    hold_nothing,
    describe_tools,
    ask_whole,
    shrink,
    simplify,
)
