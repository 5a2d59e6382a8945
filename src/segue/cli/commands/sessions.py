"""`segue sessions`: manages saved sessions; finds one by id or title."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json
from segue.cli.display.terminal import columns_of, print_status
from segue.cli.display.text_width import cut, padded
from segue.cli.display.turn_summary import counted
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.sessions.stores.store import SessionInfo, Store

WIDE = 100
"""Columns from which the number of turns is shown too."""

STORE = "sqlite, jsonl or store (those of the settings), a file of SQLite, a folder of JSON lines, or postgresql://…"
DESCRIPTION = "Manages saved sessions. ID is the id of a session, the start of its id, or its title."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list sessions, the last used first")
    listing.add_argument("text", metavar="TEXT", nargs="?", default="", help="only sessions that contain it")
    search = actions.add_parser("search", help="list the sessions that contain a text")
    search.add_argument("text", metavar="TEXT")
    for action in (listing, search):
        action.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="default: 20")
        action.add_argument(
            "-a", "--all", action="store_true", help="list empty sessions and failed ones too"
        )
        action.add_argument("--json", action="store_true", help="print JSON")
    show = actions.add_parser("show", help="print the conversation")
    export = actions.add_parser("export", help="write a session to a file or to stdout")
    export.add_argument("-o", "--output", default="-", metavar="FILE", help="default: stdout")
    export.add_argument(
        "--format",
        default="conversation",
        metavar="FORMAT",
        help="conversation (default), markdown, html, journal, or a dialect: the next request to that provider",
    )
    export.add_argument(
        "-m", "--model", default="", metavar="NAME", help="the model that such a request names"
    )
    taken = actions.add_parser("import", help="import a transcript in any format that segue doctor reads")
    taken.add_argument("file", metavar="FILE", help="- is stdin")
    taken.add_argument("--title", default="", help="default: the name of the file")
    remove = actions.add_parser("rm", help="remove sessions permanently")
    remove.add_argument("sessions", metavar="ID", nargs="+")
    rename = actions.add_parser("rename", help="give a session a title")
    for action in (show, export, rename):
        action.add_argument("session", metavar="ID")
    rename.add_argument("title", metavar="TITLE")
    copy = actions.add_parser("copy", help="copy sessions into another store, with their ids and times")
    copy.add_argument("source", metavar="FROM", help=STORE)
    copy.add_argument("target", metavar="TO", help="the same")
    copy.add_argument("sessions", metavar="ID", nargs="*", help="only these; default: all")
    for action in (listing, search, show, export, taken, remove, rename, copy):
        add_set(action)


def complete(words: list[str]) -> list[str]:
    return words or ["list"]


def run(arguments: argparse.Namespace) -> int:
    from segue.config.session_stores import open_store, open_store_at  # noqa: PLC0415

    config = read_settings(arguments.sets).config
    if arguments.action == "copy":
        source, target = (open_store_at(place, config) for place in (arguments.source, arguments.target))
        return asyncio.run(_copy(source, target, arguments))
    store = open_store(config)
    act = {
        "list": _list,
        "search": _list,
        "show": _show,
        "export": _export,
        "import": _import,
        "rm": _remove,
        "rename": _rename,
    }

    async def do() -> int:
        try:
            return await act[arguments.action](store, arguments)
        finally:
            await store.close()

    return asyncio.run(do())


async def _copy(source: Store, target: Store, arguments: argparse.Namespace) -> int:
    from collections import Counter  # noqa: PLC0415

    from segue.sessions.transfer import copy_sessions  # noqa: PLC0415

    counts: Counter[str] = Counter()
    try:
        names = [(await find_session(source, name)).id for name in arguments.sessions]
        async for copied in copy_sessions(source, target, names):
            counts[copied.outcome] += 1
            counts["entries"] += copied.entries if copied.outcome == "copied" else 0
            if copied.problem:
                print_status(f"{copied.id} was not copied: {copied.problem}")
    finally:
        await source.close()
        await target.close()
    print_status(
        f"Copied {counts['copied']} sessions with {counts['entries']} entries; {counts['known']} were there already, "
        f"{counts['failed']} were not copied."
    )
    return Exit.FINDINGS if counts["failed"] else Exit.OK


async def find_session(store: Store, name: str) -> SessionInfo:
    """By id, by the start of its id, or by title."""
    known = await store.find(limit=100_000)
    exact = [info for info in known if name in (info.id, info.title)]
    near = exact or [info for info in known if name and info.id.startswith(name)]
    if len(near) == 1 or (near and near[0].id == name):
        return near[0]
    if not near:
        raise UsageError(
            f'There is no session "{name}".',
            code="unknown_session",
            hint="List them: segue sessions list",
        )
    raise UsageError(
        f'"{name}" matches {len(near)} sessions: {", ".join(info.id for info in near[:5])}.',
        code="ambiguous_session",
        hint="Give the whole id.",
    )


async def _list(store: Store, arguments: argparse.Namespace) -> int:
    found = await store.find(text=arguments.text, used=not arguments.all, limit=arguments.limit)
    if arguments.json:
        print_json(found)
    elif not found:
        print_status(
            "There are no saved sessions."
            if not arguments.text
            else f'No session contains "{arguments.text}".'
        )
    else:
        for info in found:
            sys.stdout.write(session_line(info, columns_of(sys.stdout)) + "\n")
    return Exit.OK


def session_line(info: SessionInfo, width: int = 0, now: float | None = None) -> str:
    """One line about a session, in at most `width` columns; 0: no limit but 150."""
    turns = "" if 0 < width < WIDE else f"  {counted(info.turns, 'turn'):>9}"
    what = " ".join((info.title or info.first_words or "(empty)").split())
    held = "(open) " if info.holder is not None else ""
    room = min(32, width // 3) if width else 32
    model = padded(cut(info.model, room), room)
    line = f"{info.id:<14}{_ago(info.updated, now):>6}{turns}  {model}  {held}{what}"
    return cut(sanitised(line), width or 150).rstrip()


def _ago(at: float, now: float | None) -> str:
    seconds = max((time.time() if now is None else now) - at, 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "now"


async def _show(store: Store, arguments: argparse.Namespace) -> int:
    from segue.sessions.export import export_session  # noqa: PLC0415
    from segue.sessions.pages.markdown import MAX_OUTPUT  # noqa: PLC0415

    session = (await find_session(store, arguments.session)).id
    page = await export_session(store, session, "markdown", max_output=MAX_OUTPUT)
    sys.stdout.write(sanitised(page.decode("utf-8", "replace").replace("\t", "    ")))
    return Exit.OK


async def _export(store: Store, arguments: argparse.Namespace) -> int:
    from segue.sessions.export import export_session  # noqa: PLC0415

    session = (await find_session(store, arguments.session)).id
    data = await export_session(store, session, arguments.format, model=arguments.model)
    if not data.endswith(b"\n"):
        data += b"\n"
    if arguments.output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        Path(arguments.output).write_bytes(data)
        print_status(f"Written to {arguments.output}.")
    return Exit.OK


async def _import(store: Store, arguments: argparse.Namespace) -> int:
    from segue.sessions.imports import import_session  # noqa: PLC0415

    name = arguments.file
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    title = arguments.title or ("" if name == "-" else Path(name).stem)
    journal, history = await import_session(
        store, data, title=title, directory=str(Path.cwd()), source="stdin" if name == "-" else name
    )
    await journal.close()
    for repair in history.repairs:
        print_status(f"repair: {repair}")
    print_status(
        f"Imported {history.message_count} messages. Resume with: segue -r {journal.session} -m provider/model"
    )
    sys.stdout.write(journal.session + "\n")
    return Exit.OK


async def _remove(store: Store, arguments: argparse.Namespace) -> int:
    for name in arguments.sessions:
        info = await find_session(store, name)
        await store.delete(info.id)
        print_status(f"Removed {info.id}.")
    return Exit.OK


async def _rename(store: Store, arguments: argparse.Namespace) -> int:
    from segue.sessions.journal import Journal  # noqa: PLC0415

    journal = await Journal.resume(store, (await find_session(store, arguments.session)).id)
    try:
        await journal.rename(arguments.title)
    finally:
        await journal.close()
    print_status(f"Renamed {journal.session}: {arguments.title}")
    return Exit.OK
