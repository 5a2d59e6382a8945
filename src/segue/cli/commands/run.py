"""`segue run`: starts a program that talks to the gateway, and the gateway too if none is running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess  # the user's own program
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.terminal import print_status
from segue.errors import UsageError
from segue.system.signals import END

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from segue.config.schema import Config

DESCRIPTION = """Starts a program pointed at the gateway, with the words after its name. If no gateway answers, or it asks for a key and
you have none, one is started for this program alone, for as long as it runs. For example: segue run -m openai/gpt-4.1 claude -p "What does this project do?" """

_END_SECONDS = 30.0
_SIGNALLED = 128
"""A program that a signal ended has this code and the signal's number, as in a shell."""
_OWN_GATEWAY = (
    *("--host", "127.0.0.1", "--port", "0", "--workers", "1"),
    *("--tls-certificate", "", "--tls-key", "", "--log", "off"),
)
"""What the settings say of a gateway for many is not for one that serves a single program."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", default="", metavar="NAME", help="the model that it asks for")
    parser.add_argument("--url", default="", help="of the gateway; default: from the settings")
    add_set(parser)
    parser.add_argument("client", metavar="CLIENT", help="segue env lists them")
    parser.add_argument("words", metavar="…", nargs="...", help="words for the program")


def run(arguments: argparse.Namespace) -> int:
    from segue.cli import clients  # noqa: PLC0415

    client = clients.find_client(arguments.client)
    program = shutil.which(client.command) if client.command else None
    if program is None:
        raise UsageError(
            f"{client.title} is not installed." if client.command else f"{client.title} cannot be started.",
            code="client_missing",
            hint=f"Show its variables: segue env {arguments.client}",
        )
    config = read_settings(arguments.sets).config
    model = clients.model_for(client, arguments.model, config)
    key = clients.key_of(config)
    url = arguments.url.rstrip("/") or clients.gateway_url(config)
    # Else we would be gone at once, and a gateway that we started would serve on.
    for number in END:
        signal.signal(number, _end)
    with _gateway(url, key, arguments.sets, config, given=bool(arguments.url)) as (running, accepted):
        pointer = clients.Pointer(running, accepted, model)
        command = [program, *clients.arguments_of(client, pointer), *arguments.words]
        return _run(command, {**os.environ, **clients.environment_of(client, pointer)})


def _end(number: int, _: object) -> None:
    sys.exit(_SIGNALLED + number)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Its exit code, as a shell has it. Signals are for the program: how it ends is how we end."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    for number in END:
        signal.signal(number, pass_on)
    process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own program
    for number in early:
        process.send_signal(number)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends Ctrl-C to the program, too
    try:
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)
    return code if code >= 0 else _SIGNALLED - code


@contextmanager
def _gateway(
    url: str, key: str, sets: list[str], config: Config, *, given: bool
) -> Iterator[tuple[str, str]]:
    """The address of the gateway that runs there, else of one of our own, and a key that it takes. `given`: the user wants
    this one."""
    from segue.cli.clients import NO_KEY, key_needed  # noqa: PLC0415

    answers = _answers(url)
    if given and not answers:
        raise UsageError(f"No gateway answers at {url}.", code="no_gateway", hint="Start it: segue serve")
    if answers and not _refuses(url, key):
        yield url, key
        return
    if answers:
        # Callers' keys are for others. Whoever has keys of providers here needs none to use them.
        if given or key != NO_KEY or not _has_providers(config):
            asks = "asks for a caller's key" if key == NO_KEY else "does not know this key"
            raise key_needed(f"The gateway at {url} {asks}.")
        print_status(
            f"The gateway at {url} asks for a caller's key, so this program gets a gateway of its own."
        )
    with _own_gateway(key, sets) as own:
        yield own


@contextmanager
def _own_gateway(key: str, sets: list[str]) -> Iterator[tuple[str, str]]:
    """A gateway for one program. Without a caller's key it gets one that nobody else knows: others on this machine cannot
    use it, and it works whatever callers there are."""
    from segue.cli.clients import NO_KEY, key_needed  # noqa: PLC0415
    from segue.gateway.accounts.account import digest_of, new_key  # noqa: PLC0415
    from segue.gateway.accounts.register import ANYONE  # noqa: PLC0415

    if key == NO_KEY:
        key = new_key()
        sets = [*sets, f'gateway.callers.{ANYONE.name}.key_sha256="{digest_of(key)}"']
    words = [word for assignment in sets for word in ("--set", assignment)]
    # Only this process holds the other end open: the gateway ends with it, also if it is killed.
    alive, held = os.pipe()
    watched = ("--until-closed", str(alive)) if os.name == "posix" else ()
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-m", "segue", "serve", *_OWN_GATEWAY, *watched, *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        pass_fds=[alive] if watched else (),
    )
    os.close(alive)
    try:
        url = _address(process)
        if _refuses(url, key):
            raise key_needed("The gateway does not know this key.")
        yield url, key
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        os.close(held)


def _has_providers(config: Config) -> bool:
    from segue.config.resources import configured_providers, open_providers  # noqa: PLC0415

    return bool(configured_providers(config, open_providers(config)))


def _address(process: subprocess.Popen[str]) -> str:
    """What the gateway announces; what it reports later goes where our own reports go."""
    import threading  # noqa: PLC0415

    lines: list[str] = []
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    for line in process.stderr:
        if line.startswith("Serving at "):
            threading.Thread(target=_pass_on, args=(process,), daemon=True).start()
            return line.split()[2].rstrip(".")
        lines.append(line)
    raise UsageError(
        "The gateway did not start:\n" + "".join(lines).strip(), code="no_gateway", hint="Try: segue serve"
    )


def _pass_on(process: subprocess.Popen[str]) -> None:
    for line in process.stderr or ():
        print_status(line.rstrip())


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:  # noqa: S310 - the user's own gateway
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def _refuses(url: str, key: str) -> bool:
    """Asked now: the program itself would report it in its own words, or not at all."""
    from segue.gateway.doors.control import CONVERSATIONS  # noqa: PLC0415 - slow to load

    headers = {"authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}{CONVERSATIONS}?limit=1", headers=headers)  # noqa: S310 - the user's own gateway
    try:
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310
            return False
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 401
    except (OSError, ValueError):
        return False
