"""`segue embed`: turns texts into vectors."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Turns each TEXT, or each line of stdin, into a vector. Writes one JSON array per line, in the same order."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="default: the lines of stdin")
    parser.add_argument("-m", "--model", default="", metavar="PROVIDER[/MODEL]", help="the embedding model")
    parser.add_argument(
        "--dimensions", type=int, metavar="N", help="shorter vectors, if the model supports it"
    )
    parser.add_argument(
        "--json", action="store_true", help="one object with model, dimensions and embeddings"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.config.resources import open_providers, require_provider  # noqa: PLC0415

    config = read_settings(arguments.sets).config
    name, _, model = config.aliases.get(arguments.model, arguments.model).partition("/")
    name = name or config.model.partition("/")[0]
    if not name:
        raise UsageError(
            "The embedding model is missing.",
            code="no_model",
            hint="Add -m PROVIDER or -m PROVIDER/MODEL.",
        )
    adapter = require_provider(name, open_providers(config))
    embed = adapter.capabilities.embed
    if embed is None:
        raise UsageError(
            f"{adapter.name} has no embedding models.",
            code="not_offered",
            hint="Use another provider: -m PROVIDER",
        )
    texts = arguments.texts or _lines()
    show = not arguments.quiet and sys.stderr.isatty()
    vectors = asyncio.run(
        embed(
            texts,
            model=model,
            dimensions=arguments.dimensions,
            on_progress=(lambda done, total: print_status(f"{done} of {total}")) if show else None,
        )
    )
    if arguments.json:
        size = len(vectors[0]) if vectors else 0
        used = model or adapter.capabilities.embedding_model or getattr(adapter, "model", "")
        result = {"provider": adapter.name, "model": used, "dimensions": size, "embeddings": vectors}
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        sys.stdout.writelines(json.dumps(vector) + "\n" for vector in vectors)
    return Exit.OK


def _lines() -> list[str]:
    if sys.stdin.isatty():
        raise UsageError("There is no text.", code="no_input", hint="Give texts, or pipe lines in.")
    return [line for line in sys.stdin.read().splitlines() if line.strip()]
