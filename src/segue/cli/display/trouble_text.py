"""What is wrong with a provider, in a few words: for retries, and for turns that have failed."""

from __future__ import annotations

from typing import Final

from segue.errors import OverloadError, RateLimitError, SegueError, TransportError, status_of
from segue.providers.addresses import find_address

_KINDS: Final[tuple[tuple[type[SegueError], str], ...]] = (
    (OverloadError, "is overloaded"),
    (RateLimitError, "limits requests"),
    (TransportError, "cannot be reached"),
)


def trouble_words(error: SegueError, model: str) -> str:
    """`Anthropic is overloaded (HTTP 529)`; the provider's own words for everything else."""
    status = status_of(error)
    place = f" (HTTP {status})" if status else ""
    for kind, words in _KINDS:
        if isinstance(error, kind):
            return f"{provider_title(model)} {words}{place}"
    return f"{provider_title(model)} failed{place}: {error.message}".rstrip(" .:")


def provider_title(model: str) -> str:
    """The name of a model's provider, as it writes it."""
    name = model.partition("/")[0]
    address = find_address(name)
    return address.title if address is not None else name
