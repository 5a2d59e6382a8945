"""docs/config.schema.json and docs/events.schema.json: what can be set, and what --output-format tells.

Without --write it fails when one is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from segue.cli.one_shot.json_output import OutputEvent
from segue.config.schema import Config

DOCS = Path(__file__).resolve().parent.parent / "docs"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PAGES = {
    "config.schema.json": ("Settings of segue", Config),
    "events.schema.json": ("A line of segue --output-format stream-json", OutputEvent),
}


def main(words: list[str]) -> int:
    stale = []
    for name, (title, kind) in PAGES.items():
        schema = {"$schema": DIALECT, "title": title, **msgspec.json.schema(kind)}
        written = json.dumps(schema, indent=2) + "\n"
        page = DOCS / name
        if "--write" in words:
            page.write_text(written)
        elif not page.exists() or page.read_text() != written:
            stale.append(f"docs/{name}")
    if stale:
        print(f"{', '.join(stale)}: out of date: run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
