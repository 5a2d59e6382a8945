"""The emulators on a port: in a thread for tests, or in the foreground for `segue emulate`."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.emulators import script
from segue.emulators.app import App
from segue.emulators.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import uvicorn

START_SECONDS = 10.0
STOP_SECONDS = 5.0


class Served(Struct, frozen=True):
    """A running server."""

    base_url: str
    """Without a path: ``http://127.0.0.1:49321``."""
    emulator: Emulator

    def url(self, provider: str) -> str:
        """The address of one provider, to which its own paths (``/v1/…``) are added."""
        return f"{self.base_url}/{provider}"


def _server(app: App) -> uvicorn.Server:
    import uvicorn  # noqa: PLC0415 - only who opens a port needs it

    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=75,  # as providers do: a pooled connection is not closed under a busy client
        timeout_graceful_shutdown=1,
        server_header=False,  # an emulated API names its own
    )
    return uvicorn.Server(config)


def _listener(host: str, port: int) -> socket.socket:
    # Only on a socket that says it speaks TCP does asyncio send small portions at once, not 40 ms later.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


@contextmanager
def serve(
    port: int = 0,
    *,
    host: str = "127.0.0.1",
    emulator: Emulator | None = None,
    root: str = "",
    app: App | None = None,
) -> Iterator[Served]:
    """Serve in a thread; the port is open when the block starts and closed when it ends. `app` replaces the usual one."""
    app = app or App(emulator, root=root)
    server = _server(app)
    with _listener(host, port) as listener:
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            _wait_until_started(server, thread)
            yield Served(f"http://{host}:{listener.getsockname()[1]}", app.emulator)
        finally:
            server.should_exit = True
            thread.join(STOP_SECONDS)


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the emulator did not start")
        time.sleep(0.005)


def run(
    *,
    port: int = 8900,
    host: str = "127.0.0.1",
    provider: str = "",
    strict: bool = False,
    script_file: Path | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve in the foreground until interrupted; `announce` gets the address once the port is open."""
    emulator = Emulator(strict=strict)
    if script_file is not None:
        script.perform(script.read_file(script_file), emulator)
    server = _server(App(emulator, root=provider))
    with _listener(host, port) as listener:
        # From here on a client that comes early waits instead of being turned away.
        listener.listen()
        announce(f"http://{host}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])
