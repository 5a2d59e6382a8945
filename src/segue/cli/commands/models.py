"""`segue models`: lists and shows models; downloads and removes local ones."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.lists import print_json
from segue.cli.display.terminal import columns_of, print_error, print_status, ungated
from segue.cli.display.text_width import cut
from segue.cli.display.turn_summary import short
from segue.cli.error_report import error_lines
from segue.cli.exit_codes import Exit
from segue.errors import SegueError, UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from segue.config.schema import Config
    from segue.providers.adapter import ProviderAdapter
    from segue.providers.capabilities import ModelInfo, PullProgress
    from segue.providers.registry import KnownProviders

DESCRIPTION = """Lists the models of one provider (segue models PROVIDER) or of all configured providers (segue models).
The name of a model is provider/model."""

ASK_BYTES = 200_000_000
"""A larger download needs the user's yes."""
ACTIONS = ("list", "show", "default", "pull", "rm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the models of a provider, or of all configured providers")
    listing.add_argument(
        "provider", metavar="PROVIDER", nargs="?", default="", help="default: all configured providers"
    )
    listing.add_argument(
        "--refresh", action="store_true", help="ask the providers again instead of using recent lists"
    )
    show = actions.add_parser("show", help="show what is known about a model")
    default = actions.add_parser("default", help="show or set the model that is used without -m")
    default.add_argument("model", metavar="NAME", nargs="?", default="", help="as after -m")
    pull = actions.add_parser("pull", help="download a model to this machine")
    remove = actions.add_parser("rm", help="remove a model from this machine")
    for action in (show, pull, remove):
        action.add_argument("model", metavar="PROVIDER/MODEL")
    pull.add_argument(
        "-y", "--yes", action="store_true", help="download it without asking, however large it is"
    )
    for action in (listing, show):
        action.add_argument("--json", action="store_true", help="print JSON")
    for action in (listing, show, default, pull, remove):
        add_set(action)


def complete(words: list[str]) -> list[str]:
    """`segue models` and `segue models PROVIDER` list."""
    asks_help = words[:1] in (["-h"], ["--help"])
    return words if asks_help or (words and words[0] in ACTIONS) else ["list", *words]


def run(arguments: argparse.Namespace) -> int:
    from segue.config.resources import configured_providers, open_providers, require_provider  # noqa: PLC0415

    config = read_settings(arguments.sets).config
    providers = open_providers(config)
    if arguments.action == "list":
        names = [arguments.provider] if arguments.provider else configured_providers(config, providers)
        return asyncio.run(_list(names, providers, arguments))
    if arguments.action == "default":
        return _default(arguments.model, config, providers)
    name, _, model = arguments.model.partition("/" if "/" in arguments.model else ":")
    if not model:
        raise UsageError(
            f'"{arguments.model}" is not provider/model.',
            code="bad_model_name",
            hint="List the models: segue models",
        )
    adapter = require_provider(name, providers)
    act = {"show": _show, "pull": _pull, "rm": _remove}[arguments.action]
    return asyncio.run(act(adapter, model, arguments))


async def _list(names: list[str], providers: KnownProviders, arguments: argparse.Namespace) -> int:
    from segue.config.resources import require_provider  # noqa: PLC0415

    async def ask(name: str) -> list[ModelInfo] | SegueError:
        try:
            adapter = require_provider(name, providers)
            list_models = adapter.capabilities.list_models
            if list_models is None:
                return _cannot(adapter, "list models")
            return await list_models(refresh=arguments.refresh)
        except SegueError as error:
            return error

    answers = await asyncio.gather(*map(ask, names))
    found: list[ModelInfo] = []
    for answer in answers:
        if isinstance(answer, SegueError):
            if arguments.provider:
                raise answer
            print_error(*error_lines(answer))
        else:
            found += answer
    _write_list(found, as_json=arguments.json)
    if not names:
        print_status(
            "No provider is configured. Store a key: segue keys set PROVIDER. Or name one: segue models PROVIDER"
        )
        return Exit.NO_KEY
    return Exit.OK if found else Exit.PROVIDERS_FAILED


def _write_list(found: list[ModelInfo], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [(f"{info.provider}/{info.id}", *_facts(info)) for info in found]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    room = columns_of(sys.stdout)
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = sanitised("  ".join(cells)).rstrip()
        sys.stdout.write((cut(line, room) if room else line) + "\n")


def _facts(info: ModelInfo) -> tuple[str, str, str]:
    window = f"{short(info.context)} tokens" if info.context else ""
    price = ""
    if info.input_price is not None and info.output_price is not None:
        price = f"${info.input_price:g}/${info.output_price:g}"
    kind = info.type if info.type != "chat" else ", ".join(info.capabilities)
    return window, price, kind


def _default(name: str, config: Config, providers: KnownProviders) -> int:
    from segue.cli.model_choice import full_name  # noqa: PLC0415
    from segue.config.file_edit import write_setting  # noqa: PLC0415
    from segue.config.model_names import resolve_model  # noqa: PLC0415
    from segue.config.resources import require_provider  # noqa: PLC0415

    if not name:
        sys.stdout.write(sanitised(config.model or "none: the first that can be used") + "\n")
        return Exit.OK
    full = name if "/" in name else full_name(name, config, providers)
    for route in resolve_model(full, config).routes:
        require_provider(route.provider, providers)
    print_status(f"{full} is used without -m from now on: {write_setting(('model',), full)}")
    return Exit.OK


async def _show(adapter: ProviderAdapter, model: str, arguments: argparse.Namespace) -> int:
    show, list_models = adapter.capabilities.show_model, adapter.capabilities.list_models
    if show is not None:
        info = await show(model)
    elif list_models is not None:
        listed = await list_models()
        found = next((known for known in listed if known.id == model), None)
        if found is None:
            raise _unknown(adapter, model, listed)
        info = found
    else:
        raise _cannot(adapter, "show models")
    if arguments.json:
        print_json(info)
        return Exit.OK
    from msgspec import to_builtins  # noqa: PLC0415

    for key, value in to_builtins(info).items():
        shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        sys.stdout.write(sanitised(f"{key:<14}{shown}").rstrip() + "\n")
    return Exit.OK


def _unknown(adapter: ProviderAdapter, model: str, listed: list[ModelInfo]) -> UsageError:
    from segue.text.suggestions import suggestion  # noqa: PLC0415

    return UsageError(
        f'{adapter.name} has no model "{model}".',
        code="model_not_found",
        hint=suggestion(model, [known.id for known in listed])
        or f"List the models: segue models {adapter.name}",
    )


async def _pull(adapter: ProviderAdapter, model: str, arguments: argparse.Namespace) -> int:
    pull = adapter.capabilities.pull_model
    if pull is None:
        raise _cannot(adapter, "download models")
    if not arguments.yes and not await _agreed(adapter, model):
        print_status("Nothing was downloaded.")
        return Exit.OK
    with _progress_bar(f"{adapter.name}/{model}") as show:
        await pull(model, show)
    print_status(f"Downloaded {adapter.name}/{model}. Use it: segue -m {adapter.name}/{model}")
    return Exit.OK


async def _agreed(adapter: ProviderAdapter, model: str) -> bool:
    """Whether the user wants a large download. A small one, and one of unknown size, needs no question."""
    show = adapter.capabilities.show_model
    try:
        info = None if show is None else await show(model)
    except SegueError:  # a server knows nothing of a model before it has it
        return True
    size = info.size_bytes or 0 if info is not None and not info.details.get("installed") else 0
    if size <= ASK_BYTES:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            f"{adapter.name}/{model} is {size / 1e9:.1f} GB. Nobody can be asked here whether to download it.",
            code="large_download",
            hint=f"Agree to it: segue models pull --yes {adapter.name}/{model}",
        )
    sys.stderr.write(f"{adapter.name}/{model} is {size / 1e9:.1f} GB. Download it? [y/N] ")
    sys.stderr.flush()
    return (await asyncio.to_thread(sys.stdin.readline)).strip().lower() in ("y", "yes")


@contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[PullProgress], None]]:
    """The progress of a download on stderr; without a terminal, one line for each stage."""
    if not sys.stderr.isatty():
        stages: list[str] = []

        def report(progress: PullProgress) -> None:
            if progress.status not in stages:
                stages.append(progress.status)
                print_status(f"{name}: {progress.status}")

        yield report
        return
    from rich import progress as parts  # noqa: PLC0415 - slow to load
    from rich.console import Console  # noqa: PLC0415

    columns = (
        parts.TextColumn("{task.description}", markup=False),
        parts.BarColumn(),
        parts.DownloadColumn(),
        parts.TransferSpeedColumn(),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=Console(file=ungated(sys.stderr))) as bar:
        task = bar.add_task(name, total=None)

        def show(progress: PullProgress) -> None:
            status = sanitised(progress.status)[:40]
            bar.update(
                task, description=f"{name} {status}", completed=progress.completed, total=progress.total
            )

        yield show


async def _remove(adapter: ProviderAdapter, model: str, _arguments: argparse.Namespace) -> int:
    delete = adapter.capabilities.delete_model
    if delete is None:
        raise _cannot(adapter, "remove models")
    await delete(model)
    print_status(f"Removed {adapter.name}/{model}.")
    return Exit.OK


def _cannot(adapter: ProviderAdapter, what: str) -> UsageError:
    return UsageError(
        f"{adapter.name} cannot {what}.",
        code="not_offered",
        hint="Only some providers support this.",
    )
