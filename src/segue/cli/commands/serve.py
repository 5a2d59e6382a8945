"""`segue serve`: the gateway. Any client talks to any model through it."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.config.schema import Config, GatewaySettings
    from segue.gateway.app import Gateway
    from segue.gateway.server.process import GatewayApp
    from segue.gateway.watcher import GatewayWatcher

DESCRIPTION = """Serves every provider API at once: point the base URL of a client, agent or SDK at it, and any model answers.
SIGTERM lets running replies end, SIGHUP reads the settings anew. Point a client at it: segue env CLIENT"""

KEY_VARIABLE = "SEGUE_GATEWAY_KEY"
"""The key of a caller without a section in the settings: one variable is enough for a container."""
_FLAGS = ("host", "port", "workers", "log", "tls_certificate", "tls_key")
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0"})  # noqa: S104 - a name in an address


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="default: gateway.host, 127.0.0.1")
    parser.add_argument("--port", type=int, help="default: gateway.port, 8484; 0: any free port")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; default: gateway.workers, 1")
    parser.add_argument("--log", choices=("text", "json", "off"), help="one line for each request")
    parser.add_argument("--tls-certificate", metavar="FILE", help="serve https with this certificate (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="the key of the certificate")
    parser.add_argument("--fd", type=int, help="serve on this open socket: for workers and service managers")
    # Of a gateway that another process starts for itself: it ends with that process.
    parser.add_argument("--until-closed", type=int, metavar="FD", help=argparse.SUPPRESS)
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.gateway.server.log_output import patient_log  # noqa: PLC0415
    from segue.text.terminal_text import styled  # noqa: PLC0415

    sets = [*arguments.sets, *_sets_of(arguments)]
    config = _load(sets)
    with patient_log(styled if sys.stderr.isatty() else str):
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
        return _run(arguments, config, sets)


def _run(arguments: argparse.Namespace, config: Config, sets: list[str]) -> int:
    from segue.gateway.server.process import address_of, open_listener  # noqa: PLC0415 - loads the server

    settings = config.gateway
    if arguments.fd is not None:
        with socket.socket(fileno=arguments.fd) as listener:
            _serve(config, listener, sets, until_closed=arguments.until_closed)
        return Exit.OK
    with open_listener(settings.host, settings.port) as listener:
        _refuse_strangers(config, listener)
        _refuse_loop(config, listener)

        def announce() -> None:
            look = " See what happens with: segue inspect" if _is_inspected(settings, listener) else ""
            print_status(f"Serving at {address_of(listener, settings)}. Stop with Ctrl-C.{look}")

        if settings.workers == 1:
            _serve(config, listener, sets, announce, until_closed=arguments.until_closed)
            return Exit.OK
        return _supervise(config, listener, sets, announce)


def _refuse_strangers(config: Config, listener: socket.socket) -> None:
    from segue.cli.commands.gateway_keys import has_accounts  # noqa: PLC0415
    from segue.gateway.server.process import is_local  # noqa: PLC0415

    if not is_local(listener) and not config.gateway.callers and not has_accounts(config):
        raise UsageError(
            f"The gateway would serve {config.gateway.host} to everybody who can reach it, with your keys.",
            code="caller_key_needed",
            hint=f"Make a caller's key: segue gateway keys create NAME. Or set {KEY_VARIABLE}. Or serve only this machine: "
            "--host 127.0.0.1",
        )


def _refuse_loop(config: Config, listener: socket.socket) -> None:
    """Refuse a provider whose address is the gateway's own, such as after eval "$(segue env …)" in the same shell."""
    from segue.providers.hosts.addresses import addresses  # noqa: PLC0415

    given = {f"providers.{name}.base_url": table.get("base_url") for name, table in config.providers.items()}
    for address in addresses().providers.values():
        given |= {name: os.environ.get(name) for name in address.base_url_env}
    for place, url in given.items():
        if _leads_here(str(url or ""), listener.getsockname()[1]):
            raise UsageError(
                f"{place} is {url}: the gateway would send requests to itself.",
                code="gateway_loop",
                hint=f"Unset {place} where the gateway is started, or choose another --port.",
            )


def _leads_here(url: str, port: int) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        # The provider's own tools take an address without a scheme, too.
        parts = urlsplit(url if "://" in url else f"http://{url}")
        theirs = parts.port
    except ValueError:  # no address at all, as whoever asks that provider is told
        return False
    return theirs == port and parts.hostname in _OWN_NAMES


def _supervise(
    config: Config, listener: socket.socket, sets: list[str], announce: Callable[[], object]
) -> int:
    settings = config.gateway
    if os.name != "posix":
        raise UsageError("Several workers need a POSIX system.", code="no_workers", hint="Use --workers 1.")
    if settings.memory.keep == "memory":
        raise UsageError(
            'Several workers cannot share a memory that is kept in a process (gateway.memory.keep = "memory").',
            code="config",
            hint='Set gateway.memory.keep = "sqlite", or use --workers 1.',
        )
    import asyncio  # noqa: PLC0415
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from segue.gateway.server.process import check_certificate  # noqa: PLC0415
    from segue.gateway.server.workers import Workers  # noqa: PLC0415
    from segue.gateway.telemetry.alerts import LOCK_VARIABLE  # noqa: PLC0415
    from segue.gateway.telemetry.metrics import SHARED_FOLDER, forget_process  # noqa: PLC0415

    async def try_it() -> None:
        """What no worker could open, none would ever serve: each would end and be replaced, for ever."""
        app = await _open_first(config, listener)
        await app.close()

    check_certificate(settings)
    asyncio.run(try_it())
    announce()
    words = [word for assignment in sets for word in ("--set", assignment)]
    with TemporaryDirectory(prefix="segue-workers-") as shared:
        if settings.telemetry.metrics:
            os.environ[SHARED_FOLDER] = shared
        os.environ[LOCK_VARIABLE] = os.path.join(shared, "alerts.lock")  # noqa: PTH118
        on_death = forget_process if settings.telemetry.metrics else None
        workers = Workers(listener, ["serve", *words], count=settings.workers, on_death=on_death)
        return workers.run(settings.limits.drain)


def _serve(
    config: Config,
    listener: socket.socket,
    sets: list[str],
    announce: Callable[[], object] = lambda: None,
    *,
    until_closed: int | None = None,
) -> None:
    import asyncio  # noqa: PLC0415

    from segue.gateway.server.process import serve  # noqa: PLC0415

    gateway: Gateway | None = None

    def open_anew() -> tuple[GatewaySettings, GatewayApp]:
        nonlocal gateway
        config = _load(sets)
        gateway = _open(config, listener, gateway)
        return config.gateway, gateway

    async def main() -> None:
        nonlocal gateway
        gateway = await _open_first(config, listener)
        await serve(config.gateway, listener, gateway, open_anew, announce, until_closed)

    asyncio.run(main())


async def _open_first(config: Config, listener: socket.socket) -> Gateway:
    """With accounts that can be read: without them every request would be refused. A database that is away comes back."""
    from segue.config.paths import gateway_directory  # noqa: PLC0415
    from segue.errors import JournalError, StoreRefusedError, StoreUnreachableError  # noqa: PLC0415

    try:
        app = _open(config, listener)
    except OSError as error:
        folder = gateway_directory(config.gateway.memory.directory)
        raise UsageError(
            f"The gateway cannot keep its memory in {folder}: {error.strerror or error}.",
            code="config",
            hint="Set gateway.memory.directory to a folder of yours. Or write nothing to the disk: "
            f'gateway.memory.keep = "memory", and a key in {config.gateway.memory.key_env}.',
        ) from error
    log = logging.getLogger("segue.gateway")
    try:
        await app.accounts.store.revision()
        try:
            await app.memory.store.conversations(1)
        except (StoreRefusedError, StoreUnreachableError):
            raise
        except JournalError as error:  # a damaged file costs seals, not replies
            log.warning("Nothing can be remembered: %s", error)
    except StoreUnreachableError as error:
        log.warning("%s", error)
    return app


def _open(config: Config, listener: socket.socket, earlier: Gateway | None = None) -> Gateway:
    """`earlier`: the gateway that this one replaces."""
    import segue.transports.direct_session  # noqa: F401, PLC0415 - loaded now, so that the first request need not wait
    from segue.gateway.assembly import open_gateway  # noqa: PLC0415
    from segue.gateway.server.process import is_local  # noqa: PLC0415

    watcher = _open_inspector(config, listener, earlier)
    return open_gateway(config, local=is_local(listener), earlier=earlier, watcher=watcher)


def _is_inspected(settings: GatewaySettings, listener: socket.socket) -> bool:
    from segue.gateway.server.process import is_local  # noqa: PLC0415

    enabled = settings.inspect.enabled
    return is_local(listener) if enabled is None else enabled


def _open_inspector(
    config: Config, listener: socket.socket, earlier: Gateway | None
) -> GatewayWatcher | None:
    """None if it is switched off. What it has recorded stays when the settings are read anew."""
    if not _is_inspected(config.gateway, listener):
        return None
    settings = config.gateway.inspect
    if earlier is not None and earlier.watcher is not None:
        return earlier.watcher
    from segue.config.paths import gateway_directory  # noqa: PLC0415
    from segue.gateway.stores import open_key  # noqa: PLC0415
    from segue.inspector.inspector import Inspector  # noqa: PLC0415

    memory, key = config.gateway.memory, open_key(config.gateway.memory)
    folder = None if memory.keep == "memory" else gateway_directory(memory.directory)
    content = None
    if folder is not None and settings.content == "store":
        from segue.inspector.record.content_file import ContentFile  # noqa: PLC0415

        file = folder / "inspector.db"
        content = ContentFile(file, key, keep_seconds=memory.days * 86_400, max_bytes=memory.max_bytes)
    return Inspector(
        settings,
        key,
        audit_file=folder / "audit.jsonl" if folder is not None else None,
        content_file=content,
        processes=config.gateway.workers,
    )


def _load(sets: list[str]) -> Config:
    """The settings, with the caller whose key is in the environment. Names that lead nowhere are reported now."""
    from msgspec import structs  # noqa: PLC0415

    from segue.config.layers import config_error  # noqa: PLC0415
    from segue.config.model_names import reference_faults  # noqa: PLC0415
    from segue.config.schema import CallerSettings  # noqa: PLC0415

    loaded = read_settings(sets)
    faults = reference_faults(loaded)
    gateway = loaded.config.gateway
    faults += [
        f"{loaded.origin(('gateway', 'callers', name, 'key_env'))}: the variable {caller.key_env} is not set."
        for name, caller in gateway.callers.items()
        if caller.key_env and not os.environ.get(caller.key_env)
    ]
    if faults:
        raise config_error(faults)
    if os.environ.get(KEY_VARIABLE):
        callers = {"default": CallerSettings(key_env=KEY_VARIABLE), **gateway.callers}
        gateway = structs.replace(gateway, callers=callers)
    return structs.replace(loaded.config, gateway=gateway)


def _sets_of(arguments: argparse.Namespace) -> list[str]:
    """The flags as settings: they hold over the files, also when the settings are read anew."""
    given = {name: getattr(arguments, name) for name in _FLAGS}
    return [f"gateway.{name}={value}" for name, value in given.items() if value is not None]
