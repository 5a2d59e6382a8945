"""The gateway in a program of your own: an ASGI application that opens itself when it is first used.

It lives in one event loop at a time: that of the server which runs it, or one in a thread of its own for the clients of this
process. When that loop has ended, the next one takes over what the process remembers.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, final

from segue.config.layers import config_error, given_settings
from segue.config.model_names import reference_faults
from segue.databases.postgres.address import is_database_url
from segue.errors import CredentialsError, SegueError, UsageError
from segue.gateway.loop_thread import LoopThread, await_on, wait_on

if TYPE_CHECKING:
    from segue.config.schema import MemorySettings
    from segue.gateway.app import Gateway
    from segue.gateway.memory.installation_key import InstallationKey
    from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
    from segue.gateway.requests.web import Receive, Send
    from segue.providers.adapter import Providers

Scope: TypeAlias = MutableMapping[str, Any]
GatewayConfig: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str]"
"""Settings as in `config.toml`: a table of them, or the path of such a file."""

IN_PROCESS: Final = "segue.in_process"
"""The extension of a scope by which a client of this process is known."""
_DEFAULTS: Final[dict[str, Any]] = {"gateway": {"log": "off", "memory": {"keep": "memory"}}}
"""A program keeps what it is told to keep, and its log is its own."""


def gateway_app(
    config: GatewayConfig | None = None,
    *,
    providers: Providers | None = None,
    memory: str | os.PathLike[str] | None = None,
) -> GatewayApplication:
    """The gateway as an ASGI application, with lifespan, below any `root_path`.

    `config`: settings as in `config.toml`, as a table or the path of a file; no other place is read. `providers`: those that may
    be asked, and no others; else all that are known, with their keys from the environment or `segue keys`. `memory`: what clients
    cannot hold of replies is kept in this folder, or in the database of a `postgresql://` address; else, unless the settings name a
    place, until the process ends. Nothing is opened before the first request.
    """
    return GatewayApplication(config, providers=providers, memory=memory)


@final
class GatewayApplication:
    """An ASGI application. `async with` opens and closes it within the lifespan of your own application; a server does the same by
    its lifespan messages. Without either it opens itself at the first request."""

    def __init__(
        self,
        config: GatewayConfig | None = None,
        *,
        providers: Providers | None = None,
        memory: str | os.PathLike[str] | None = None,
    ) -> None:
        """As `gateway_app`."""
        settings = given_settings(config, defaults=_DEFAULTS, above=_place_of(memory))
        if providers is None and (faults := reference_faults(settings)):
            raise config_error(faults)
        self._config = settings.config
        self._providers = providers
        self._kept = _process_memory(self._config.gateway.memory)
        self._gateway: Gateway | None = None
        self._earlier: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"GatewayApplication({'closed' if self._gateway is None else 'open'})"

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        gateway = self._opened()
        scope = _below_root(scope)
        if scope["type"] == "http" and await _is_stranger(gateway, scope):
            await _refuse(scope, send)
            return
        await gateway(scope, receive, send)

    async def aclose(self) -> None:
        """Finish background work and close the stores. The next request opens them again."""
        loop, gateway, thread = self._leave()
        if loop is not None and gateway is not None and not loop.is_closed():
            await await_on(loop, gateway.close())
        if thread is not None:
            await asyncio.to_thread(thread.end)

    def close(self) -> None:
        """The same for programs without an event loop."""
        loop, gateway, thread = self._leave()
        if loop is not None and gateway is not None and not loop.is_closed():
            wait_on(loop, gateway.close())
        if thread is not None:
            thread.end()

    def _leave(
        self,
    ) -> tuple[asyncio.AbstractEventLoop | None, Gateway | None, LoopThread | None]:
        with self._lock:
            left = self._loop, self._gateway, self._thread
            self._earlier = self._gateway or self._earlier
            self._loop = self._gateway = self._thread = None
            atexit.unregister(self.close)
        return left

    def home(self) -> asyncio.AbstractEventLoop:
        """The event loop of the gateway. If there is none yet, one starts in its own thread."""
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._thread = LoopThread("segue-gateway")
                self._loop = self._thread.loop
                atexit.register(self.close)  # many programs never close their clients
            return self._loop

    def _opened(self) -> Gateway:
        """The gateway of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._loop is not loop:
                if self._loop is not None and not self._loop.is_closed():
                    raise UsageError(
                        "This gateway lives in another event loop.",
                        code="other_loop",
                        hint="Make a gateway_app() for each server, or reach this one by in_process_transport().",
                    )
                self._loop, self._earlier, self._gateway = loop, self._gateway or self._earlier, None
            if self._gateway is None:
                self._gateway = self._open()
            return self._gateway

    def _open(self) -> Gateway:
        from segue.gateway.assembly import open_gateway  # noqa: PLC0415 - loads all wires
        from segue.gateway.memory.memory import Memory  # noqa: PLC0415
        from segue.providers.registry import GivenProviders, KnownProviders  # noqa: PLC0415

        given = self._providers
        return open_gateway(
            self._config,
            providers=given if given is None or isinstance(given, KnownProviders) else GivenProviders(given),
            memory=Memory(*self._kept) if self._kept is not None else None,
            earlier=self._earlier,
        )

    async def _begin(self) -> None:
        """Raises if its stores cannot be used."""
        gateway = self._opened()
        await gateway.memory.store.check()
        await gateway.accounts.store.check()

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
            try:
                await self._begin()
            except (SegueError, OSError) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})


def _place_of(memory: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The settings that keep the memory there."""
    if memory is None:
        return {}
    place = os.fspath(memory)
    if is_database_url(place):
        return {"store": place, "gateway": {"memory": {"keep": "sqlite"}}}
    return {
        "store": "",
        "gateway": {"memory": {"keep": "sqlite", "directory": str(Path(place).expanduser())}},
    }


def _process_memory(settings: MemorySettings) -> tuple[SQLiteMemoryStore, InstallationKey] | None:
    """What keeps the memory of this process alone, with a key that nobody else knows; None if it is kept elsewhere, or with a key of
    the environment."""
    if settings.keep != "memory" or os.environ.get(settings.key_env):
        return None
    from segue.gateway.memory.installation_key import KEY_BYTES, InstallationKey  # noqa: PLC0415 - slow to load
    from segue.gateway.memory.sqlite_store import SQLiteMemoryStore  # noqa: PLC0415

    store = SQLiteMemoryStore(
        None,
        max_bytes=settings.max_bytes,
        max_records=settings.max_replies,
        keep_seconds=settings.days * 86_400.0,
    )
    return store, InstallationKey(token_bytes(KEY_BYTES))


def _below_root(scope: Scope) -> Scope:
    """The path below the place where the application is mounted: servers and frameworks name the whole path.

    A proxy may have taken the beginning away that it serves them at (FastAPI's `root_path`): then the path begins with the
    rest of the place.
    """
    root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
    while root and not (path == root or path.startswith(f"{root}/")):
        slash = root.find("/", 1)
        root = root[slash:] if slash > 0 else ""
    return {**scope, "path": path[len(root) :] or "/"} if root else scope


async def _is_stranger(gateway: Gateway, scope: Scope) -> bool:
    """Whether another machine asks a gateway without callers: it would answer everybody, with your keys."""
    if IN_PROCESS in (scope.get("extensions") or {}) or scope.get("client") is None:
        return False
    from segue.gateway.accounts.register import ANYONE  # noqa: PLC0415
    from segue.gateway.server.process import is_loopback  # noqa: PLC0415

    if is_loopback(scope["client"][0]):
        return False
    try:
        return await gateway.accounts.find(()) is ANYONE
    except SegueError:  # there are callers, or they cannot be read: the gateway reports which
        return False


async def _refuse(scope: Scope, send: Send) -> None:
    from segue.gateway.doors.paths import Doors  # noqa: PLC0415
    from segue.gateway.requests.client_errors import CALLER, error_response  # noqa: PLC0415
    from segue.gateway.requests.web import ResponseWriter  # noqa: PLC0415

    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    error = CredentialsError(
        "This gateway has no callers, so it answers this machine alone.",
        code=CALLER,
        hint="Its operator can add callers: gateway.callers in its settings.",
    )
    wire = Doors().wire_of(scope["method"], scope["path"], headers)
    await ResponseWriter(send, {}).whole(error_response(error, wire))
