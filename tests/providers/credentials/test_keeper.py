"""A token is fetched once, refreshed ahead of its end by one task, and never shown."""

from __future__ import annotations

import asyncio
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from msgspec import Struct

from segue.dialects.registry import DIALECTS
from segue.errors import CredentialsError
from segue.providers.credentials import AHEAD_SECONDS, PAUSE_SECONDS, AccessToken, TokenKeeper
from segue.providers.credentials.keys import Secret
from segue.providers.endpoint import Endpoint
from segue.transports.http import HttpTransport


class Clock:
    """Seconds since 1970, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Tokens(Struct):
    """Gives token-1, token-2 …, each for an hour; may be slow, and may fail."""

    clock: Clock
    title: str = "A cloud"
    fetched: int = 0
    at_once: int = 0
    most_at_once: int = 0
    seconds: float = 0.0
    failure: Exception | None = None
    threads: list[int] = []

    def fetch(self) -> AccessToken:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.threads.append(threading.get_ident())
        time.sleep(self.seconds)
        self.at_once -= 1
        if self.failure is not None:
            raise self.failure
        self.fetched += 1
        return AccessToken(
            Secret(f"token-{self.fetched}-of-the-cloud"), self.clock() + 3600, {"x-payer": "us"}
        )

    def check(self) -> None:
        if self.failure is not None:
            raise CredentialsError("There are none.", code="missing_key")

    def remedy(self) -> str:
        return "Log in."


def kept(**settings: object) -> tuple[TokenKeeper, Tokens, Clock]:
    clock = Clock()
    tokens = Tokens(clock, **settings)  # type: ignore[arg-type]
    return TokenKeeper(tokens, "providers.cloud", clock), tokens, clock


async def sent(keeper: TokenKeeper) -> str:
    await keeper.ready()
    return keeper.headers()["authorization"]


def test_many_requests_at_once_fetch_one_token_in_a_thread() -> None:
    keeper, tokens, _ = kept(seconds=0.05)

    async def main() -> list[str]:
        return await asyncio.gather(*(sent(keeper) for _ in range(20)))

    assert set(asyncio.run(main())) == {"Bearer token-1-of-the-cloud"}
    assert (tokens.fetched, tokens.most_at_once) == (1, 1)
    assert threading.get_ident() not in tokens.threads


def test_a_token_near_its_end_is_used_while_one_task_fetches_the_next() -> None:
    keeper, tokens, clock = kept()

    async def main() -> None:
        assert await sent(keeper) == "Bearer token-1-of-the-cloud"
        clock.now += 3600 - AHEAD_SECONDS + 1
        tokens.seconds = 0.1
        began = time.monotonic()
        assert {await sent(keeper) for _ in range(10)} == {"Bearer token-1-of-the-cloud"}
        assert time.monotonic() - began < 0.1
        await asyncio.sleep(0.3)
        assert await sent(keeper) == "Bearer token-2-of-the-cloud"

    asyncio.run(main())
    assert (tokens.fetched, tokens.most_at_once) == (2, 1)


def test_a_refresh_that_fails_ahead_of_time_hurts_nobody_until_the_token_has_ended() -> None:
    keeper, tokens, clock = kept()

    async def main() -> None:
        await sent(keeper)
        clock.now += 3600 - AHEAD_SECONDS + 1
        tokens.failure = RuntimeError("The server is away.")
        for _ in range(5):
            assert await sent(keeper) == "Bearer token-1-of-the-cloud"
            await asyncio.sleep(0.02)
        assert len(tokens.threads) == 2, "it is not tried again for each request"
        clock.now += PAUSE_SECONDS
        await sent(keeper)
        await asyncio.sleep(0.05)
        assert len(tokens.threads) == 3
        clock.now += AHEAD_SECONDS
        with pytest.raises(
            CredentialsError, match="A cloud gives no credentials: The server is away"
        ) as caught:
            await sent(keeper)
        assert caught.value.hint == "Log in."
        assert caught.value.path == "providers.cloud"
        tokens.failure = None
        assert await sent(keeper) == "Bearer token-2-of-the-cloud"

    asyncio.run(main())


def test_a_refused_token_is_fetched_again() -> None:
    keeper, _, _ = kept()

    async def main() -> None:
        await sent(keeper)
        keeper.forget()
        assert not keeper.known
        assert await sent(keeper) == "Bearer token-2-of-the-cloud"

    asyncio.run(main())


def test_no_token_is_shown_and_none_is_in_an_error() -> None:
    keeper, tokens, clock = kept()
    secret = keeper.headers()["authorization"].removeprefix("Bearer ")
    assert secret not in f"{keeper!r} {keeper._held!r} {keeper.__class__}"
    clock.now += 3601
    tokens.failure = RuntimeError(f"invalid_grant: {secret} has ended")
    with pytest.raises(CredentialsError) as caught:
        keeper.headers()
    assert secret not in str(caught.value)
    assert "invalid_grant" in str(caught.value)


def test_what_is_certain_without_a_request_is_told_without_one() -> None:
    keeper, tokens, _ = kept(failure=RuntimeError("x"))
    assert not keeper.is_offered()
    with pytest.raises(CredentialsError):
        keeper.check()
    assert tokens.threads == []


def test_an_error_is_redacted_without_a_token_being_fetched_for_it() -> None:
    """Of two requests with a refused token the first makes it forgotten; the second must not wait for a new one."""
    keeper, tokens, _ = kept()

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keeper.forget()  # as another request does whose answer has just come
            sent = self.headers["authorization"].encode()
            self.send_response(401)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = Endpoint(
        provider="cloud",
        dialect=DIALECTS["openai_chat"],
        base_url=f"http://127.0.0.1:{server.server_port}",
        headers=keeper.headers,
        ready=keeper.ready,
        transport=HttpTransport(),
    )
    try:
        with pytest.raises(CredentialsError) as caught:
            asyncio.run(endpoint.json("GET", "/models"))
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
    assert "token-1-of-the-cloud" not in f"{caught.value} {caught.value.body!r}"
    assert tokens.fetched == 1


def test_a_token_that_has_ended_is_not_known() -> None:
    keeper, _, clock = kept()
    keeper.headers()
    assert keeper.known
    clock.now += 3600
    assert not keeper.known
