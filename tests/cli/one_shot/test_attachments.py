"""-a, @file and binary stdin: what is attached reaches the model as what it is, or nothing is sent at all."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit

PNG = (Path(__file__).parents[3] / "docs" / "examples" / "cat.png").read_bytes()
CLAUDE = ("-m", "anthropic/claude-sonnet-4-6")


def sent(cloud: Cloud) -> str:
    return json.dumps(cloud.bodies()[-1]["messages"][-1])


@pytest.fixture
def files(cloud: Cloud) -> Path:
    folder = cloud.home.project
    (folder / "cat.png").write_bytes(PNG)
    (folder / "paper.pdf").write_bytes(b"%PDF-1.7 ...")
    (folder / "notes.md").write_text("Buy milk.\n")
    (folder / "data.bin").write_bytes(bytes(range(256)) * 4)
    return folder


@pytest.fixture
def site() -> Iterator[str]:
    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/cat"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "image/png")
            self.end_headers()
            self.wfile.write(PNG if found else b"")

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - the name of the method's own

    server = HTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_files_of_every_kind_are_attached(cloud: Cloud, asked: Here, files: Path) -> None:
    told = asked("What is this?", *CLAUDE, "-a", "cat.png", "-a", "paper.pdf", "-a", "notes.md")
    assert told.code == Exit.OK
    body = sent(cloud)
    assert b64encode(PNG).decode() in body
    assert "application/pdf" in body
    assert "Buy milk." in body


@pytest.mark.usefixtures("files")
def test_a_file_that_the_prompt_mentions_is_attached_and_any_other_word_with_an_at_is_text(
    cloud: Cloud, asked: Here
) -> None:
    asked("Ask @ada about @cat.png, please", *CLAUDE)
    assert b64encode(PNG).decode() in sent(cloud)
    assert "Ask @ada about @cat.png, please" in sent(cloud)


@pytest.mark.usefixtures("files")
def test_piped_text_mentions_nothing(cloud: Cloud, asked: Here) -> None:
    asked("Summarise this", *CLAUDE, stdin="see @notes.md")
    assert "Buy milk." not in sent(cloud)


def test_piped_media_is_attached(cloud: Cloud, asked: Here) -> None:
    assert asked("What is this?", *CLAUDE, stdin=PNG).code == Exit.OK
    assert b64encode(PNG).decode() in sent(cloud)
    assert asked("What is this?", *CLAUDE, "-a", "-", stdin=PNG).code == Exit.OK
    assert b64encode(PNG).decode() in sent(cloud)


def test_an_address_is_fetched_and_attached(cloud: Cloud, asked: Here, site: str) -> None:
    assert asked("What is this?", *CLAUDE, "-a", f"{site}/cat").code == Exit.OK
    assert b64encode(PNG).decode() in sent(cloud)
    told = asked("What is this?", *CLAUDE, "-a", f"{site}/dog")
    assert told.code == Exit.USAGE
    assert "HTTP 404" in told.err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-a", "missing.png"), "missing.png cannot be attached: No such file"),
        (("-a", "."), "cannot be attached"),
        (("-a", "data.bin"), "data.bin is not text, an image, a PDF or audio"),
        (("@data.bin",), "data.bin is not text, an image, a PDF or audio"),
        (("-m", "ollama/qwen3:8b", "-a", "paper.pdf"), "ollama/qwen3:8b cannot take paper.pdf"),
    ],
)
def test_what_cannot_be_attached_is_an_error_before_anything_is_sent(
    cloud: Cloud, asked: Here, words: tuple[str, ...], reason: str
) -> None:
    told = asked("What is this?", *words)
    assert told.code == Exit.USAGE
    assert reason in told.err
    assert cloud.bodies() == []


def test_binary_stdin_that_is_no_media_is_refused(cloud: Cloud, asked: Here) -> None:
    told = asked("What is this?", stdin=bytes(range(256)) * 4)
    assert told.code == Exit.USAGE
    assert "stdin is not text, an image, a PDF or audio" in told.err
    assert cloud.bodies() == []
