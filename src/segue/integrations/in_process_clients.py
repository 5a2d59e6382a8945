"""Clients of OpenAI's SDK that reach a gateway in this process: what the integrations of frameworks are built on.

A framework keeps the history itself and sends all of it with each request. So it needs what any client of the gateway needs,
and its own client for the Responses API carries it: call ids, encrypted thoughts, schemas, counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from segue.gateway import gateway_app, in_process_transport

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from segue.gateway import GatewayApplication

NO_KEY: Final = "in-process"
"""SDKs insist on a key; nobody reads it."""
SEALED_THOUGHTS: Final = "reasoning.encrypted_content"
"""What a client of Responses has included, so that it carries thoughts itself."""


STRICT_HEADERS: Final = {"x-segue-strict": "tool_not_offered"}
"""A tool that runs at its provider is no part of another one: the request is refused, and not sent without it."""


@lru_cache(maxsize=1)
def shared_app() -> GatewayApplication:
    """One gateway for all models of a process that were given none: a conversation passes from one to another."""
    return gateway_app()


def async_client(app: GatewayApplication | None) -> AsyncOpenAI:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415 - an extra of the framework

    transport = in_process_transport(app or shared_app())
    return AsyncOpenAI(
        http_client=DefaultAsyncHttpxClient(transport=transport),
        api_key=NO_KEY,
        default_headers=STRICT_HEADERS,
    )


def waiting_client(app: GatewayApplication | None) -> OpenAI:
    """The same for code that waits."""
    from openai import DefaultHttpxClient, OpenAI  # noqa: PLC0415 - an extra of the framework

    transport = in_process_transport(app or shared_app())
    return OpenAI(
        http_client=DefaultHttpxClient(transport=transport), api_key=NO_KEY, default_headers=STRICT_HEADERS
    )
