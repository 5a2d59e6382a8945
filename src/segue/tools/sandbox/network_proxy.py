"""The only way from a command to the network: a proxy for HTTP and HTTPS that knows which hosts are allowed.

It listens inside the command's own network, and runs in this process: so what is refused is known by its name. Names are
looked up here. A name that leads to this machine or to its network is refused, unless that very address is allowed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlsplit

from segue.tools.builtin.public_addresses import is_public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_HEAD: Final = 65_536
_HEAD_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 30.0
_MAX_CONNECTIONS: Final = 256
_HOST: Final = re.compile(r"[a-z0-9_.-]{1,253}|\[?[0-9a-f:.]+\]?", re.IGNORECASE)
_PATTERN: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+)(?::(?P<port>\d+|\*))?")
_DROPPED: Final = (b"proxy-connection:", b"proxy-authorization:", b"connection:", b"keep-alive:")


class HostRefusedError(Exception):
    """The command asked for a host that is not allowed."""


def allows_host(patterns: Iterable[str], host: str, port: int) -> bool:
    """`example.org` and `*.example.org` are about the ports of the web, `example.org:8080` and `example.org:*` about others."""
    return bool(_fitting(patterns, host, port))


def _fitting(patterns: Iterable[str], host: str, port: int) -> list[str]:
    """Of the patterns that are about a host and port, what they say about the host."""
    name = host.lower().rstrip(".").strip("[]")
    fitting = []
    for pattern in patterns:
        found = _PATTERN.fullmatch(pattern.lower())
        known, ports = (found["host"], found["port"]) if found is not None else (pattern.lower(), None)
        fits = fnmatchcase(name, known.strip("[]"))
        if fits and (ports in ("*", str(port)) if ports else port in (80, 443)):
            fitting.append(known.strip("[]"))
    return fitting


@final
class NetworkProxy:
    """One command's way out."""

    def __init__(self, hosts: Iterable[str], refused: Callable[[str], None]) -> None:
        """`refused` gets the name of each host that was asked for and is not allowed."""
        self._hosts = tuple(hosts)
        self._refused = refused
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, listener: socket.socket | None = None) -> int:
        """Serve a socket that listens; without one, a port of this machine, which is returned."""
        if listener is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MAX_HEAD)
        else:
            listener.setblocking(False)  # noqa: FBT003
            self._server = await asyncio.start_server(self._accept, sock=listener, limit=_MAX_HEAD)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=1.0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        if len(self._open) > _MAX_CONNECTIONS:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head, reader, writer)
        except HostRefusedError as refusal:
            text = f"segue's sandbox allows no connection to {refusal}.\n".encode()
            await _send(writer, b"403 Forbidden", text)
        except (TimeoutError, OSError):
            await _send(writer, b"502 Bad Gateway", b"The host cannot be reached.\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            await _send(writer, b"400 Bad Request", b"This is no request for a proxy.\n")
        finally:
            writer.close()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *fields = head[:-4].split(b"\r\n")
        method, target, _ = line.decode("ascii").split(" ", 2)
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            there, back = await self._connect(host, int(port))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target)
            if parts.scheme != "http" or not parts.hostname or "@" in parts.netloc:
                raise ValueError(target)
            there, back = await self._connect(parts.hostname, parts.port or 80)
            path = target.partition("://")[2][len(parts.netloc) :] or "/"
            kept = [field for field in fields if not field.lower().startswith(_DROPPED)]
            # One request for one connection: the next might be for another host.
            lines = [f"{method} {path} HTTP/1.1".encode("ascii"), *kept, b"Connection: close", b"", b""]
            back.write(b"\r\n".join(lines))
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            back.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not _HOST.fullmatch(host) or not 0 < port < 65_536:
            raise ValueError(host)
        shown = host.strip("[]").lower().rstrip(".")
        named = shown if port in (80, 443) else f"{shown}:{port}"
        fitting = _fitting(self._hosts, shown, port)
        if not fitting:
            self._refused(named)
            raise HostRefusedError(named)
        async with asyncio.timeout(_CONNECT_SECONDS):
            for address in await _addresses(shown, port):
                # The address that was judged is the one that is connected to: no second look-up.
                if is_public(address) or _is_named_itself(shown, fitting):
                    with suppress(OSError):
                        return await asyncio.open_connection(address, port, limit=_MAX_HEAD)
                else:
                    self._refused(named)
                    raise HostRefusedError(f"{named}, which is not on the public network")
        raise OSError("no address answers")


def _is_named_itself(host: str, patterns: Iterable[str]) -> bool:
    """Whether the user has allowed this very machine or address: a pattern for every host does not mean it."""
    if all(pattern.startswith("*") for pattern in patterns):
        return False
    if host == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _addresses(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while portion := await reader.read(65_536):
            writer.write(portion)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _send(writer: asyncio.StreamWriter, status: bytes, text: bytes) -> None:
    with suppress(OSError):
        length = str(len(text)).encode()
        writer.write(
            b"HTTP/1.1 %b\r\nContent-Type: text/plain\r\nContent-Length: %b\r\nConnection: close\r\n\r\n%b"
            % (status, length, text)
        )
        await writer.drain()
