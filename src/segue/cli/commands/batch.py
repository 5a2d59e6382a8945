"""`segue batch`: many requests to one model, handed over at once."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.arguments import EFFORTS
from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status, ungated
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import safe_json, sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from segue.batch import Batch, BatchStatus, Pace
    from segue.config.schema import Config
    from segue.providers.registry import KnownProviders

DESCRIPTION = """Sends many requests to one model as a batch: half the price, answered within a day, mostly much sooner.

FILE has one request per line: {"prompt": "…"}, {"messages": […]}, or a batch line of OpenAI or Anthropic. All lines are
checked before anything is sent. Results are lines of JSON, in the order of FILE.

A batch survives everything: interrupt or kill segue, and start it again with the same FILE and model, or with
segue batch results ID --wait. Nothing is handed over twice. Providers without a batch endpoint are asked one by one,
at their usual price."""
_ID = "the id of a batch, or the start of it; default: the last one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="send the requests of a file, and wait for the results")
    run.add_argument("file", metavar="FILE.jsonl", help="one request per line; - is stdin")
    run.add_argument("-m", "--model", default="", metavar="NAME", help="provider/model, or an alias")
    run.add_argument(
        "-s", "--system", default="", metavar="TEXT", help="for requests without a system prompt"
    )
    run.add_argument(
        "--schema",
        default="",
        metavar="FILE|JSON",
        help="answers follow this JSON Schema, if a line has none",
    )
    run.add_argument("--temperature", type=float, metavar="T", help="for lines that set none")
    run.add_argument("--max-tokens", type=int, metavar="N", help="limit of the length of a reply")
    run.add_argument("--effort", choices=EFFORTS, help="reasoning effort")
    run.add_argument(
        "-o",
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the model (docs/cli.md)",
    )
    run.add_argument(
        "--retries",
        type=int,
        default=2,
        metavar="N",
        help="ask again what expired or failed for a reason that passes; default: 2",
    )
    run.add_argument(
        "--concurrency",
        type=int,
        default=4,
        metavar="N",
        help="requests at once, without a batch endpoint; default: 4",
    )
    run.add_argument(
        "--run-number",
        type=int,
        default=1,
        metavar="N",
        help="another number sends the same file to the same model once more",
    )
    run.add_argument(
        "--detach", action="store_true", help="hand over and return; later: segue batch results ID"
    )
    run.set_defaults(template_options={})
    status = actions.add_parser("status", help="list all batches, or show one")
    status.add_argument("batch", metavar="ID", nargs="?", default="")
    status.add_argument("--json", action="store_true", help="print JSON")
    results = actions.add_parser("results", help="fetch and print the results of a batch")
    results.add_argument("--wait", action="store_true", help="until every request has a result")
    cancel = actions.add_parser("cancel", help="stop a batch; what is answered is kept, and charged")
    for action in (results, cancel):
        action.add_argument("batch", metavar="ID", nargs="?", default="", help=_ID)
    for action in (run, results):
        action.add_argument("-O", "--output", default="-", metavar="FILE", help="default: stdout")
        action.add_argument("--save", action="store_true", help="keep each answer as a session, to resume it")
        action.add_argument("--poll", type=float, metavar="SECONDS", help="look so often; default: 2 to 60")
    for action in (run, results, cancel):
        action.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    for action in (run, status, results, cancel):
        add_set(action)


def complete(words: list[str]) -> list[str]:
    return words or ["status"]


def run(arguments: argparse.Namespace) -> int:
    from segue.config.resources import open_providers  # noqa: PLC0415 - `--help` needs none of it

    config = read_settings(arguments.sets).config
    providers = open_providers(config)
    match arguments.action:
        case "run":
            batch = _created(arguments, config, providers)
            return _finish(arguments, config, batch, wait=not arguments.detach)
        case "results":
            return _finish(arguments, config, _open(arguments.batch, providers), wait=arguments.wait)
        case "cancel":
            return _cancel(arguments, _open(arguments.batch, providers))
        case _:
            return _status(arguments, providers)


def _created(arguments: argparse.Namespace, config: Config, providers: KnownProviders) -> Batch:
    """What the file holds is in memory only until the batch has its own file."""
    from msgspec import structs  # noqa: PLC0415

    from segue.batch import Batch, read_lines  # noqa: PLC0415
    from segue.cli.flag_values import given_options, read_schema  # noqa: PLC0415
    from segue.config.paths import batches_directory  # noqa: PLC0415

    model = _model(arguments.model or config.model, config, providers)
    options = given_options(arguments)
    if arguments.schema:
        options = structs.replace(options, response_schema=read_schema(arguments.schema))
    path = Path(arguments.file)
    data = sys.stdin.buffer.read() if arguments.file == "-" else path.read_bytes()
    folder = Path.cwd() if arguments.file == "-" else path.parent
    requests = read_lines(data, folder=folder, system=arguments.system)
    return Batch.create(
        requests,
        model,
        batches_directory(),
        providers=providers,
        options=options,
        retries=arguments.retries,
        source="stdin" if arguments.file == "-" else path.name,
        run_number=arguments.run_number,
    )


def _model(name: str, config: Config, providers: KnownProviders) -> str:
    from segue.cli.model_choice import full_name  # noqa: PLC0415
    from segue.config.model_names import resolve_model  # noqa: PLC0415

    if not name:
        raise UsageError("The model is missing.", code="no_model", hint="Add -m PROVIDER/MODEL.")
    chosen = resolve_model(name if "/" in name else full_name(name, config, providers), config)
    if chosen.profile:
        raise UsageError(
            f"{name} is a profile of several models, and a batch goes to one.",
            code="profile",
            hint=f"Name one of them: -m {chosen.members[0]}",
        )
    return chosen.members[0]


def _open(name: str, providers: KnownProviders) -> Batch:
    from segue.batch import Batch, batch_files  # noqa: PLC0415
    from segue.config.paths import batches_directory  # noqa: PLC0415

    files = [file for file in batch_files(batches_directory()) if file.stem.startswith(name)]
    if not files or (name and len(files) > 1):
        raise UsageError(
            f'There is no batch "{name}".'
            if name and not files
            else f'Several batches begin with "{name}".'
            if name
            else "There is no batch yet.",
            code="unknown_batch",
            hint="List all batches: segue batch status",
        )
    return Batch.open(files[0], providers)


def _finish(arguments: argparse.Namespace, config: Config, batch: Batch, *, wait: bool) -> int:
    if arguments.output != "-" and not (folder := Path(arguments.output).absolute().parent).is_dir():
        raise UsageError(f"There is no folder {folder} for the results.", code="no_folder", path="--output")
    try:
        status = asyncio.run(_work(arguments, config, batch, wait=wait))
    except KeyboardInterrupt:
        print_status(f"Resume with: segue batch results {batch.id} --wait")
        raise
    detached = arguments.action == "run" and not wait and not status.is_complete
    if not detached:
        _write(arguments.output, batch)
    if not arguments.quiet or detached:
        print_status(_summary(status))
        if not status.is_complete:
            print_status(f"Results: segue batch results {batch.id} --wait")
    return Exit.OK if detached or status.succeeded == status.total else Exit.FINDINGS


async def _work(arguments: argparse.Namespace, config: Config, batch: Batch, *, wait: bool) -> BatchStatus:
    concurrency = getattr(arguments, "concurrency", 4)
    with _progress(quiet=arguments.quiet) as report:
        status = await batch.run(
            wait=wait, on_progress=report, concurrency=concurrency, pace=_pace(arguments.poll)
        )
    if arguments.save:
        from segue.batch import save_sessions  # noqa: PLC0415
        from segue.config.session_stores import open_store  # noqa: PLC0415

        store = open_store(config)
        try:
            saved = await save_sessions(batch, store, directory=str(Path.cwd()))
        finally:
            await store.close()
        print_status(f"Saved {saved} sessions. Resume one: segue -r ID")
    return status


def _pace(seconds: float | None) -> Pace:
    from segue.batch import Pace  # noqa: PLC0415

    return Pace() if seconds is None else Pace(first_look=seconds, longest_pause=seconds)


def _write(output: str, batch: Batch) -> None:
    """All results, in order. A file is replaced when it is whole."""
    import msgspec  # noqa: PLC0415

    lines = (msgspec.json.encode(result) for result in batch.results())
    if output == "-":
        for line in lines:
            sys.stdout.write(safe_json(line.decode()) + "\n")
        return
    path = Path(output)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(b"".join(line + b"\n" for line in lines))
    draft.replace(path)


def _cancel(arguments: argparse.Namespace, batch: Batch) -> int:
    status = asyncio.run(batch.cancel())
    if not arguments.quiet:
        print_status(_summary(status))
        print_status(f"Results: segue batch results {batch.id} --wait")
    return Exit.OK


def _status(arguments: argparse.Namespace, providers: KnownProviders) -> int:
    from segue.batch import Batch, batch_files  # noqa: PLC0415
    from segue.config.paths import batches_directory  # noqa: PLC0415

    if arguments.batch:
        batches = [_open(arguments.batch, providers)]
    else:
        batches = [Batch.open(file, providers) for file in batch_files(batches_directory())]
    found = [batch.status() for batch in batches]
    if arguments.json:
        print_json(found[0] if arguments.batch else found)
    elif not found:
        print_status("There is no batch yet. Start one: segue batch run FILE.jsonl -m PROVIDER/MODEL")
    else:
        rows = [(one.id, one.source, one.model, _summary(one).partition(": ")[2]) for one in found]
        print_table([("ID", "FILE", "MODEL", "STATUS"), *rows])
    return Exit.OK


def _summary(status: BatchStatus) -> str:
    counts = [
        f"{count} {word}"
        for word, count in (
            ("succeeded", status.succeeded),
            ("failed", status.failed),
            ("expired", status.expired),
            ("cancelled", status.cancelled),
            ("running", status.running),
            ("waiting", status.waiting),
        )
        if count
    ]
    words = ", ".join(counts)
    if status.trouble:
        words += f"; trying again: {status.trouble}"
    if status.mode == "single":
        words += "; one by one, for the provider has no batch endpoint"
    if status.expires is not None:
        hours = max(status.expires - time.time(), 0.0) / 3600
        words += f"; expires in {hours:.0f} h"
    if status.cost is not None and status.succeeded:
        words += f"; ${status.cost:.4f}"
    return f"Batch {status.id}: {words}"


def _phase(status: BatchStatus) -> str:
    if status.mode == "single":
        return "one by one"
    return "running" if status.running and not status.waiting else "handing over"


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[BatchStatus], None]]:
    """On stderr: a bar at a terminal, else a line for each change."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        shown: list[str] = []

        def report(status: BatchStatus) -> None:
            line = _summary(status)
            if line not in shown[-1:] and not status.is_complete:  # its summary follows
                shown.append(line)
                print_status(line)

        yield report
        return
    from rich import progress as parts  # noqa: PLC0415 - slow to load
    from rich.console import Console  # noqa: PLC0415

    columns = (
        parts.TextColumn("{task.description}", markup=False),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TimeElapsedColumn(),
    )
    with parts.Progress(*columns, console=Console(file=ungated(sys.stderr)), transient=True) as bar:
        task = bar.add_task("", total=None)
        trouble = ""

        def show(status: BatchStatus) -> None:
            nonlocal trouble
            if status.trouble not in ("", trouble):
                bar.print(sanitised(f"Trying again: {status.trouble}"), markup=False, highlight=False)
            trouble = status.trouble
            failed = f", {status.failed} failed" if status.failed else ""
            bar.update(
                task,
                description=sanitised(f"{status.model}: {_phase(status)}{failed}"),
                completed=status.done + status.answered,
                total=status.total,
            )

        yield show
