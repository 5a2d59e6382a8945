"""`segue inspect`: opens the inspector in the browser, for the gateway, a saved session or a file."""

from __future__ import annotations

import asyncio
import html
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from segue.config.schema import Config
    from segue.inspector.local import LocalInspector
    from segue.inspector.markup.shell import Page

DESCRIPTION = """Opens the inspector: a page that shows what happens to conversations. Without an argument that of the gateway that runs
here; with a session of the chat, or with a file (a request of any provider's API, or a session file of another agent) a page about
that; with --approvals a page on which you answer for the calls of sessions that wait for somebody. These are served until Ctrl-C. A
program's name (claude, codex, gemini, pi, qwen) stands for its last session. The link works once, for a minute."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="SESSION or FILE", nargs="?", default="", help="default: the running gateway"
    )
    parser.add_argument(
        "--approvals", action="store_true", help="the calls of saved sessions that wait for an answer"
    )
    parser.add_argument(
        "--store",
        metavar="STORE",
        default="",
        help="of --approvals: a file, a folder or a URL of sessions; default: the one of the settings",
    )
    parser.add_argument("--url", default="", help="of the gateway; default: the one of the settings")
    parser.add_argument("--no-browser", action="store_true", help="only print the link")
    parser.add_argument("--port", type=int, default=0, help="of the page of a session or a file")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    config = read_settings(arguments.sets).config
    if arguments.approvals:
        if arguments.what:
            raise UsageError(
                "--approvals shows all sessions; it takes no session and no file.",
                code="bad_option",
                path="--approvals",
                hint=f"Its calls are on the page of a session, too: segue inspect {arguments.what}",
            )
        app = _approvals_page(config, arguments.store)
        return _serve(app, arguments.port, browser=not arguments.no_browser)
    if not arguments.what:
        return _open_gateway(config, arguments.url, browser=not arguments.no_browser)
    file = _file_of(arguments.what)
    app = _file_page(file) if file is not None else _session_page(config, arguments.what)
    return _serve(app, arguments.port, browser=not arguments.no_browser)


def _open_gateway(config: Config, given: str, *, browser: bool) -> int:
    from segue.cli.clients import asks_for_key, gateway_url  # noqa: PLC0415
    from segue.gateway.stores import open_key  # noqa: PLC0415
    from segue.inspector.access.logins import new_token  # noqa: PLC0415
    from segue.inspector.markup.shell import ROOT  # noqa: PLC0415

    url = (given or gateway_url(config)).rstrip("/")
    _require_running(url)
    link = f"{url}{ROOT}/login"
    if not asks_for_key(config, elsewhere=bool(given)):
        link += f"#t={new_token(open_key(config.gateway.memory))}"
    else:
        print_status("This gateway has callers: log in with the key of one, or of an operator.")
    _show(link, browser=browser)
    return Exit.OK


def _require_running(url: str) -> None:
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    try:
        with urllib.request.urlopen(f"{url}/segue/inspector/login", timeout=5) as answer:  # noqa: S310 - the user's own
            answer.read()
    except urllib.error.HTTPError as error:
        raise UsageError(
            f"The gateway at {url} has no inspector ({error.code}).",
            code="no_inspector",
            hint="Set gateway.inspect.enabled = true where it is started.",
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(
            f"No gateway answers at {url}.",
            code="no_gateway",
            hint="Start it: segue serve. Or inspect a session or a file: segue inspect SESSION",
        ) from error


def _show(link: str, *, browser: bool) -> None:
    sys.stdout.write(link + "\n")
    sys.stdout.flush()
    if not browser:
        return
    import webbrowser  # noqa: PLC0415

    from segue.config.paths import gateway_directory  # noqa: PLC0415
    from segue.system.private_files import write_private  # noqa: PLC0415

    # Other users of the machine see what programs are started with, so the browser gets the name of a private file.
    file = gateway_directory() / "inspect.html"
    write_private(
        file,
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={html.escape(link)}">',
    )
    if not webbrowser.open(file.as_uri()):
        print_status("No browser could be opened. Open the link yourself; it works once, for a minute.")


def _file_of(what: str) -> Path | None:
    from segue.interop.stored_sessions import last_session, program_named  # noqa: PLC0415

    path = Path(what)
    if path.is_file():
        return path
    program = program_named(what)
    if program is not None:
        return Path(last_session(program).file)
    if path.suffix or "/" in what:
        raise UsageError(f"There is no file {what}.", code="no_input", hint="segue inspect FILE")
    return None


def _file_page(file: Path) -> LocalInspector:
    from segue.inspector.local import LocalInspector  # noqa: PLC0415
    from segue.inspector.pages import doctor  # noqa: PLC0415

    def make(wire: str) -> Page:
        return doctor.report_page(doctor.check(file.name, file.read_bytes(), wire))

    return LocalInspector(
        lambda query: asyncio.to_thread(make, query.get("for", "")), "a file of this machine"
    )


def _session_page(config: Config, name: str) -> LocalInspector:
    from segue.cli.commands.sessions import find_session  # noqa: PLC0415
    from segue.config.session_stores import open_store  # noqa: PLC0415
    from segue.inspector.local import LocalInspector  # noqa: PLC0415
    from segue.inspector.pages.approvals import saved_session_page  # noqa: PLC0415
    from segue.sessions.approvals import WaitingCalls  # noqa: PLC0415

    async def find() -> str:
        store = open_store(config)
        try:
            return (await find_session(store, name)).id
        finally:
            await store.close()

    session, waiting = asyncio.run(find()), WaitingCalls(open_store(config))
    return LocalInspector(
        lambda _: saved_session_page(waiting, session), "a session of this machine", waiting=waiting
    )


def _approvals_page(config: Config, place: str) -> LocalInspector:
    from segue.config.session_stores import open_store, open_store_at  # noqa: PLC0415
    from segue.inspector.local import LocalInspector  # noqa: PLC0415
    from segue.inspector.pages.approvals import page_of  # noqa: PLC0415
    from segue.sessions.approvals import WaitingCalls  # noqa: PLC0415

    waiting = WaitingCalls(open_store_at(place, config) if place else open_store(config))
    return LocalInspector(
        lambda query: page_of(waiting, query, root="/"), "sessions of this machine", waiting=waiting
    )


def _serve(app: LocalInspector, port: int, *, browser: bool) -> int:
    from segue.gateway.server.process import open_listener  # noqa: PLC0415
    from segue.inspector.markup.shell import ROOT  # noqa: PLC0415

    with open_listener("127.0.0.1", port) as listener:
        import uvicorn  # noqa: PLC0415

        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        print_status(f"The page is served at {address}. Stop with Ctrl-C.")
        _show(f"{address}{ROOT}/login#t={app.token()}", browser=browser)

        async def serve() -> None:
            try:
                await server.serve(sockets=[listener])
            finally:
                await app.close()

        try:
            asyncio.run(serve())
        except KeyboardInterrupt:
            return Exit.OK
    return Exit.OK
