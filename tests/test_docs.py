"""Every example in the documents works: Python as doctests, commands as written and with the output that is shown,
settings as configuration. Emulated providers answer; what they say on a page stands in docs/examples/<page>.toml.
"""

from __future__ import annotations

import doctest
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import final, get_args

import pexpect
import pyte
import pytest
from msgspec import Struct
from scripts import provider_table, site_pages, words

from cli.cli_runs import Cloud, Home
from segue.cli.command_table import COMMANDS
from segue.emulators import script
from segue.emulators.pytest_plugin import segue_emulator_server
from segue.emulators.server import Served
from segue.events import ChatEvent
from segue.sessions.entries import Entry

__all__ = ["segue_emulator_server"]

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
NAMES = {str(page.relative_to(ROOT)): page for page in PAGES}
_BY_CHANCE = re.compile(r"(?<=127\.0\.0\.1:)\d+|\b[0-9a-f]{12}\b|\d+(?= ms)")
"""Ports, ids of sessions and times are different each time."""
_GENERATED = ("docs/requirements.md", "docs/emulator-rules.md", "docs/api/")
_FINDS_SOMETHING = (0, 1, 62)
"""1: the doctor has findings; 62: --strict refuses to lose something."""


@final
class Block(Struct, frozen=True):
    """A fenced block of a page: its language, where it begins, and what is in it."""

    language: str
    line: int
    text: str


@final
class Typed(Struct, frozen=True):
    """A command that a reader would type, and what the page shows below it."""

    line: int
    command: str
    shown: str


def blocks(page: Path, language: str) -> list[Block]:
    found: list[Block] = []
    begun, inside = -1, ""
    lines = page.read_text("utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if begun < 0:
            begun, inside = number, line.strip("`\n")
        else:
            found.append(Block(inside, begun + 2, "".join(lines[begun + 1 : number])))
            begun = -1
    return [block for block in found if block.language == language]


def typed(page: Path) -> list[Typed]:
    commands: list[Typed] = []
    for block in blocks(page, "console"):
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not parts[0], f"line {block.line}: a console block begins with a command"
        for part in parts[1:]:
            lines = part.splitlines(keepends=True)
            end = next(index for index, line in enumerate(lines) if not line.endswith("\\\n")) + 1
            if document := re.search(r"<<'(\w+)'$", lines[end - 1]):
                end = lines.index(f"{document[1]}\n") + 1
            commands.append(Typed(block.line, "".join(lines[:end]), "".join(lines[end:])))
    return commands


def matches(shown: str, *streams: str) -> bool:
    """`…` stands for anything; nothing shown says nothing. The two streams may come in either order."""
    shown = _columns(_BY_CHANCE.sub("…", shown))
    pattern = ".*".join(re.escape(piece) for piece in shown.split("…"))
    out, err = map(_columns, streams)
    return not shown or any(re.fullmatch(pattern, told, re.DOTALL) for told in (out + err, err + out))


def _columns(text: str) -> str:
    """How wide a column is depends on what else stands in it."""
    return re.sub(" {2,}", "  ", text)


def having(language: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [name for name, page in NAMES.items() if blocks(page, language)])


@pytest.fixture
def reader(tmp_path: Path, segue_emulator_server: Served) -> Cloud:
    """Somebody with a home of their own, where the documents are at hand and emulated providers answer."""
    cloud = Cloud(Home(tmp_path), segue_emulator_server)
    (cloud.home.project / "docs").symlink_to(ROOT / "docs")
    programs = Path(sys.executable).parent
    cloud.home.environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    del cloud.home.environment["SEGUE_PROVIDERS__OPENAI__MODEL"]  # pages show the default model
    cloud.home.environment["OLLAMA_HOST"] = segue_emulator_server.url("ollama")
    cloud.home.environment["MISTRAL_API_KEY"] = "sk-test-mistral-0123456789"
    cloud.home.environment["MISTRAL_BASE_URL"] = segue_emulator_server.url("mistral") + "/v1"
    return cloud


@pytest.mark.filterwarnings(
    "ignore:invalid escape sequence"
)  # in the source of an SDK that is not compiled yet
@having("python")
def test_the_python_on_a_page_does_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = NAMES[name]
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    known: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python"):
        assert block.text.startswith(">>> "), f"line {block.line}: a block of Python is made of examples"
        examples = doctest.DocTestParser().get_doctest(block.text, known, name, str(page), block.line - 1)
        runner.run(examples, clear_globs=False)
        known.update(examples.globs)
    assert runner.failures == 0


@having("console")
def test_the_commands_on_a_page_do_what_the_page_says(name: str, reader: Cloud) -> None:
    page = NAMES[name]
    answers = ROOT / "docs" / "examples" / f"{page.stem.lower()}.toml"
    if answers.exists():
        script.perform(script.read_file(answers), reader.emulator)
    for given in typed(page):
        told = subprocess.run(  # noqa: S603 - what our own pages say
            ["/bin/bash", "-c", given.command],
            cwd=reader.home.project,
            env=reader.home.full(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        where = f"{name}, line {given.line}: {given.command}"
        assert told.returncode in _FINDS_SOMETHING, where + told.stderr
        assert "Traceback" not in told.stderr, where + told.stderr
        assert matches(given.shown, told.stdout, told.stderr), where + told.stdout + told.stderr
    refused = [
        f"{entry.rule}: {entry.message}" for entry in reader.emulator.log if entry.verdict == "refused"
    ]
    assert not refused


@having("bash")
def test_a_block_pasted_into_a_shell_shows_what_the_page_shows(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    (block,) = blocks(NAMES[name], "bash")
    shown = next(text for text in blocks(NAMES[name], "text") if text.line > block.line)
    shell = pexpect.spawn(
        "/bin/bash",
        ["--norc", "--noprofile", "-i"],
        cwd=str(home.project),
        env=home.full(PORT=port, PS1="ready> "),
        encoding="utf-8",
        timeout=60,
        dimensions=(24, 110),
    )
    shell.expect_exact("ready> ")
    # A terminal marks what is pasted, so that the shell runs it only when Enter is pressed.
    shell.send(f"\x1b[200~{block.text}\x1b[201~\r")
    shell.expect_exact("\x1b[?2004l")
    shell.expect_exact("ready> ")
    screen = pyte.Screen(110, 200)
    pyte.Stream(screen).feed(shell.before or "")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)
    shell.close()
    seen = "".join(f"{line.rstrip()}\n" for line in screen.display).strip() + "\n"
    assert matches(shown.text, seen, "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=1)


def test_with_the_variables_on_a_page_every_emulated_provider_answers(reader: Cloud) -> None:
    page = NAMES["docs/without-a-key.md"].read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(.*=.*)` \|$", page, re.MULTILINE)
    variables = dict(pair.split("=", 1) for _, pairs in rows for pair in pairs.split())
    for variable, value in variables.items():
        reader.home.environment[variable] = value.replace("http://127.0.0.1:8900", reader.served.base_url)
    health = reader.home.run("health", *(provider for provider, _ in rows))
    assert health.code == 0, health.out
    assert health.out.count(" healthy ") == len(rows) == 7


@having("toml")
def test_the_settings_on_a_page_can_be_used(name: str, reader: Cloud) -> None:
    for block in blocks(NAMES[name], "toml"):
        reader.home.configure(block.text)
        told = reader.home.run("config", "check")
        assert told.code == 0, f"{name}, line {block.line}: {told.err}"


@pytest.mark.parametrize("name", NAMES)
def test_commands_that_a_page_names_exist(name: str) -> None:
    text = NAMES[name].read_text("utf-8")
    text += "".join(f"`{line}" for block in blocks(NAMES[name], "text") for line in block.text.splitlines())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= set(targets)
    assert set(re.findall(r"`segue ([a-z]+)", text)) <= set(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_links_on_a_page_lead_somewhere(name: str) -> None:
    page = NAMES[name]
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)", page.read_text("utf-8"))
    gone = [
        f"{target}#{heading}"
        for target, heading in links
        if not (page.parent / target).exists()
        or (heading and heading not in headings(page.parent / target if target else page))
    ]
    assert not gone


def headings(page: Path) -> list[str]:
    """The anchors of a page, as GitHub makes them of its headings."""
    lines = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    anchors: list[str] = []
    for line in lines:
        anchor = re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-")
        again = sum(re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", earlier) is not None for earlier in anchors)
        anchors.append(f"{anchor}-{again}" if again else anchor)
    return anchors


def test_every_page_has_its_place_on_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"(?:: |- )([\w/-]+\.md)$", site, re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob("**/*.md")}
    whole_folders = {page for page in pages if page.startswith(("api/", "decisions/"))}
    assert pages - whole_folders <= listed
    assert listed - pages == set(site_pages.ADDED)


def test_what_users_read_uses_the_words_that_engineers_search_for() -> None:
    assert list(words.findings(words.load_words())) == []


def test_the_check_of_words_finds_them_in_pages_and_in_messages() -> None:
    found = list(words.findings({"gateways?": "another word"}))
    assert any(line.startswith("docs/gateway.md:") for line in found)
    assert any(line.startswith("src/segue/cli/") for line in found)
    assert not any("docs/decisions" in line for line in found)


def test_the_tree_on_the_architecture_page_is_the_tree_of_the_sources() -> None:
    tree = next(
        block for block in blocks(NAMES["docs/architecture.md"], "text") if "src/segue/" in block.text
    )
    shown, package = set[Path](), Path()
    for branch, name in re.findall(r"^([├└]── |│     )(\S+)", tree.text, re.MULTILINE):
        package = package if branch.startswith("│") else Path(name)
        shown.add(package / name if branch.startswith("│") else package)
    sources = ROOT / "src" / "segue"
    packages = {path.parent.relative_to(sources) for path in sources.glob("*/__init__.py")}
    assert {path for path in shown if not (sources / path).exists()} == set()
    assert packages <= shown


@pytest.mark.parametrize("entry", get_args(Entry))
def test_every_entry_of_a_journal_is_told(entry: type[Struct]) -> None:
    assert f"`{entry.__name__}`" in NAMES["docs/sessions.md"].read_text("utf-8")


@pytest.mark.parametrize("event", get_args(ChatEvent))
def test_every_event_of_a_chat_is_told(event: type[Struct]) -> None:
    assert f"`{event.__struct_config__.tag}`" in NAMES["docs/chat.md"].read_text("utf-8")


def test_the_table_of_providers_tells_what_is_known_of_them() -> None:
    assert provider_table.main([]) == 0


@pytest.mark.parametrize(
    "name", [name for name, page in NAMES.items() if blocks(page, "py") and not name.startswith(_GENERATED)]
)
def test_a_program_on_a_page_is_an_example_and_short(name: str) -> None:
    examples = {path.read_text("utf-8") for path in ROOT.glob("examples/*.py")}
    for block in blocks(NAMES[name], "py"):
        assert block.text in examples, f"{name}:{block.line}: copy it from examples/, where it is run"
        assert len(block.text.splitlines()) <= 60
