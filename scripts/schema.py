"""docs/conversation.schema.json: the JSON Schema of a conversation document. Without --write it fails when out of date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from segue.conversation.document import document_schema

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conversation.schema.json"


def main(words: list[str]) -> int:
    written = json.dumps(document_schema(), indent=2) + "\n"
    if "--write" in words:
        PAGE.write_text(written)
    elif not PAGE.exists() or PAGE.read_text() != written:
        print("docs/conversation.schema.json is out of date: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
