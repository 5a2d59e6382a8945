"""docs/config.schema.json and docs/events.schema.json: what can be set, and what --output-format tells.

Without --write it fails when one is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from segue.cli.one_shot.json_output import OutputEvent
from segue.config.schema import Config
from segue.providers.config import ProviderConfig
from segue.providers.hosts.addresses import addresses

DOCS = Path(__file__).resolve().parent.parent / "docs"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
PAGES = {
    "config.schema.json": ("Settings of segue", Config),
    "events.schema.json": ("A line of segue --output-format stream-json", OutputEvent),
}


def settings_schema() -> dict[str, Any]:
    """`providers` with the settings of each, so that editors complete them. The loader reads these tables later, and by itself."""
    fields = [
        (field.name, str if field.name == "api_key" else field.type, None)
        for field in msgspec.structs.fields(ProviderConfig)
    ]
    provider = msgspec.defstruct("ProviderSettings", fields, kw_only=True, forbid_unknown_fields=True)
    (settings, one), definitions = msgspec.json.schema_components(
        [Config, provider], ref_template="#/$defs/{name}"
    )
    definitions["Config"]["properties"]["providers"]["additionalProperties"] = one
    properties = definitions["ProviderSettings"]["properties"]
    for name in properties:
        del properties[name]["default"]  # mostly that of the provider
    properties["like"]["examples"] = sorted(addresses().providers)
    return {**settings, "$defs": definitions}


def main(words: list[str]) -> int:
    stale = []
    for name, (title, kind) in PAGES.items():
        made = settings_schema() if kind is Config else msgspec.json.schema(kind)
        schema = {"$schema": DIALECT, "title": title, **made}
        # Up to Python 3.12 a docstring keeps the indentation of its lines.
        written = re.sub(r"\\n +", r"\\n", json.dumps(schema, indent=2)) + "\n"
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
