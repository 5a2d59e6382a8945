"""Stand-ins on loopback for the servers that give tokens: they check what they are sent and remember it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = Callable[[str, str, dict[str, str], dict[str, str]], tuple[int, dict[str, object]]]
"""Of a method, a path with its query, the headers, and the fields of a form: a status and JSON."""


class TokenServer:
    """Where it is, and what it was asked."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.url = f"{scheme}://localhost:{server.server_address[1]}"
        self.host = f"localhost:{server.server_address[1]}"
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = []


@contextmanager
def token_server(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[TokenServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", "0"))).decode()
            self._answer({name: values[0] for name, values in parse_qs(text).items()})

        def _answer(self, form: dict[str, str]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = self.command, self.path, headers, form
            served.asked.append(asked)
            status, said = answer(*asked)
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("metadata-flavor", "Google")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class calls it
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    served = TokenServer(server, "http" if context is None else "https")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def in_an_hour() -> int:
    return int(time.time()) + 3600
