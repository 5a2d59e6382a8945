"""What the site needs besides docs/: the pages at the root of the repository, lists of folders, and links that fit both.

MkDocs calls these functions by their names (`hooks` in mkdocs.yml). The pages themselves are written for readers of the
repository; here their links to files that the site does not have become plain text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
ADDED = {
    "index.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "examples.md": "examples/README.md",
}
"""A page of the site → where its text stands in the repository."""
LISTED = {"api/": "api", "decisions/": "decisions"}
"""An entry of the navigation that stands for all pages of a folder."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Put the pages of a folder where the navigation names the folder."""
    config.nav = _with_lists(config.nav)


def _with_lists(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_with_lists(inner) for inner in entry]
    if isinstance(entry, dict):
        return {title: _with_lists(inner) for title, inner in entry.items()}
    if entry in LISTED:
        return sorted(f"{entry}{page.name}" for page in (ROOT / "docs" / LISTED[entry]).glob("*.md"))
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside of docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the tests read this module without it

    for place, source in ADDED.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Make links of the repository links of the site."""
    place = page.file.src_uri
    source = ADDED.get(place, f"docs/{place}")
    return _LINK.sub(lambda found: _link(found, place, source, files), markdown)


def _link(found: re.Match[str], place: str, source: str, files: Files) -> str:
    picture, text, target, heading = found.groups()
    if not target:
        return found[0]
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    on_site = next((name for name, file in ADDED.items() if file == wanted), wanted.removeprefix("docs/"))
    if files.get_file_from_path(on_site) is None:
        return f"`{wanted}`" if text.strip("`") == target else text
    target = posixpath.relpath(on_site, posixpath.dirname(place) or ".")
    return f"{picture}[{text}]({target}{heading or ''})"
