"""What the newest SDKs know and our wires do not: `make drift`.

python -m scripts.drift            install the newest SDKs, print news that scripts/drift/known.toml does not list, and fail on them
python -m scripts.drift --all      print listed news, too, with their reasons

A word of an SDK (see read_sdks.py) is known where a dialect or an emulator of its wire names it. `make clients` asks the same.
A field that looks like the name of something held elsewhere (see read_references.py) is known where the references of its wire find it
in a request, or where identifiers.toml says why it stands for no content.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from segue.dialects.registry import DIALECTS
from segue.dialects.server_side.references import references_in

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src" / "segue"
SDKS = ("anthropic", "openai", "google-genai", "mistralai", "ollama")
CACHE = Path(os.environ.get("SEGUE_CLIENTS", "~/.cache/segue-clients")).expanduser()
SECONDS = 600
FAMILY = "dialects/openai_chat"
"""Without the folders in it: each is a wire of its own."""
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("dialects/anthropic_messages", "emulators/anthropic"),
    "openai_chat": (FAMILY, "emulators/openai_chat"),
    "openai_responses": ("dialects/openai_responses", "emulators/openai_responses"),
    "gemini": ("dialects/gemini", "emulators/gemini"),
    "gemini_interactions": ("dialects/gemini_interactions", "emulators/gemini_interactions"),
    "mistral": (
        "dialects/openai_chat/mistral",
        "emulators/mistral",
        FAMILY,
        "emulators/openai_chat",
    ),
    "ollama": ("dialects/openai_chat/ollama", "emulators/ollama"),
}
"""Where a wire is written down; Mistral's is OpenAI's with changes."""
SHARED = (
    "dialects",
    "dialects/caches",
    "dialects/replies",
    "dialects/requests",
    "dialects/server_side",
    "dialects/streams",
    "emulators",
    "emulators/model",
    "conversation",
)
"""Modules of all wires, without the folders in them."""


class News(Struct, frozen=True):
    """A word of an SDK that no code of its wire names."""

    wire: str
    word: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.places) - 2} more" if len(self.places) > 2 else ""
        return f'{self.wire}: "{self.word}" in {", ".join(self.places[:2])}{more}'


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.drift", description=__doc__)
    parser.add_argument("--all", action="store_true", help="print listed news, too")
    asked = parser.parse_args()
    sdks = read_sdks()
    listed = read_listed(tomllib.loads((HERE / "known.toml").read_text("utf-8")))
    found = list(news(sdks))
    versions = sorted({f"{sdk['sdk']} {sdk['version']}" for sdk in sdks.values()})
    sys.stdout.write(f"{', '.join(versions)}: {len(found)} words that no wire names\n")
    unlisted = [one for one in found if (one.wire, one.word) not in listed]
    for one in found if asked.all else unlisted:
        reason = listed.get((one.wire, one.word), "NOT LISTED: support it, or list it with a reason")
        sys.stdout.write(f"{one}: {reason}\n")
    unnamed = list(unnamed_references(sdks))
    for reference in unnamed:
        sys.stdout.write(f"{reference}: name it in the references of its wire, or list it with a reason\n")
    for wire, word in sorted(set(listed) - {(one.wire, one.word) for one in found}):
        sys.stdout.write(f'{wire}: "{word}" is listed in scripts/drift/known.toml and is no news\n')
    return 1 if unlisted or unnamed else 0


def unnamed_references(sdks: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Fields of requests that no table of references names, and that are not listed as ones that stand for no content."""
    table = tomllib.loads((HERE / "identifiers.toml").read_text("utf-8"))
    for wire, sdk in sdks.items():
        known = {field for group in table.get(wire, {}).values() for field in group["fields"]}
        requests = sdk.get("references")
        for field, request in requests.items() if isinstance(requests, dict) else ():
            if field.partition(" at ")[0] in known:
                continue
            if not references_in(request, DIALECTS[wire].server.references, wire):
                yield f"{wire}: {field}"


def read_sdks() -> dict[str, dict[str, object]]:
    """The newest ones, in an environment of their own."""
    folder = CACHE / "python" / "drift"
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade", *SDKS]
    subprocess.run(install, check=True, timeout=SECONDS)
    told: dict[str, dict[str, object]] = _printed(python, "read_sdks.py")
    for wire, requests in _printed(python, "read_references.py").items():
        told.setdefault(wire, {**told["gemini"], "words": {}})
        told[wire]["references"] = requests
    return told


def _printed(python: str, program: str) -> dict[str, dict[str, object]]:
    read = subprocess.run([python, str(HERE / program)], check=True, capture_output=True, timeout=SECONDS)
    printed: dict[str, dict[str, object]] = json.loads(read.stdout)
    return printed


def read_listed(table: Mapping[str, Mapping[str, Mapping[str, object]]]) -> dict[tuple[str, str], str]:
    """Wire and word → why it is not in our tables."""
    listed: dict[tuple[str, str], str] = {}
    for wire, groups in table.items():
        for name, group in groups.items():
            words, reason = group["words"], group["reason"]
            if not isinstance(words, list) or not isinstance(reason, str) or not reason.strip():
                raise SystemExit(f"known.toml: {wire}.{name} needs words and a reason.")
            listed |= {(wire, str(word)): reason for word in words}
    return listed


def news(sdks: Mapping[str, Mapping[str, object]]) -> Iterator[News]:
    for wire, sdk in sdks.items():
        known = words_of(files_of(wire)) | words_of_errors(wire) | words_of_server(wire)
        words = sdk["words"]
        if isinstance(words, dict):
            yield from (
                News(wire, word, tuple(places)) for word, places in words.items() if word not in known
            )


def files_of(wire: str) -> Iterator[Path]:
    for folder in (*SHARED, *FOLDERS[wire]):
        is_flat = folder in (*SHARED, FAMILY)
        yield from (SOURCE / folder).glob("*.py" if is_flat else "**/*.py")


def words_of(files: Iterable[Path]) -> set[str]:
    """What the code names: its strings but for docstrings, and fields of its records."""
    words: set[str] = set()
    for file in files:
        nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            match node:
                case ast.Constant() if id(node) in docstrings:
                    continue
                case ast.Constant(value=str(text)):
                    words.add(text)
                    words.update(re.findall(r"[\w.-]+", text) if len(text) < 300 else ())
                case ast.keyword(arg=str(name)) | ast.AnnAssign(target=ast.Name(id=name)):
                    words.add(name)
    return words


def words_of_errors(wire: str) -> set[str]:
    """The codes and types of errors in the wire's table."""
    table = tomllib.loads((SOURCE / "dialects" / "errors.toml").read_text("utf-8"))["wires"].get(wire, {})
    return {name for names in table.get("names", {}).values() for name in names}


def words_of_server(wire: str) -> set[str]:
    """What the file of a server of the Chat wire names."""
    file = SOURCE / "dialects" / "openai_chat" / "servers" / f"{wire}.toml"
    return set(re.findall(r"[\w.-]+", file.read_text("utf-8"))) if file.exists() else set()


if __name__ == "__main__":
    sys.exit(main())
