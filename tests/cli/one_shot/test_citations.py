"""Sources that a model names: below the answer for people, as values for scripts, and never inside of an answer that is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cli.cli_runs import Here, Home
from cli.one_shot.test_one_shot import lines
from segue.cli.exit_codes import Exit
from strategies.cited_replies import ANTHROPIC, TEXT, URL

FIRST = f"[1] About foxes: {URL}"


class CitingProvider(BaseHTTPRequestHandler):
    """Answers whatever it is asked with one reply that has sources."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(ANTHROPIC.stream)))
        self.end_headers()
        self.wfile.write(ANTHROPIC.stream)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - as the base class names it
        """Nothing is printed."""


@pytest.fixture
def informed(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), CitingProvider)
    Thread(target=server.serve_forever, daemon=True).start()
    home.environment |= {
        "ANTHROPIC_API_KEY": "sk-test-anthropic-0123456789",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
    }
    yield home.here(monkeypatch).with_words("-m", "anthropic/claude-sonnet-4-6")
    server.shutdown()
    server.server_close()


def test_sources_stand_below_the_answer(informed: Here) -> None:
    told = informed("What are foxes?")
    assert told.code == Exit.OK, told.err
    assert told.out.startswith(f"{TEXT}\n\nSources:\n{FIRST}\n")
    assert all(fact in told.out for fact in ANTHROPIC.facts)


def test_scripts_get_sources_as_values(informed: Here) -> None:
    source = {"title": "About foxes", "url": URL, "quote": "Foxes are red."}
    told = informed("--json", "What are foxes?")
    assert told.code == Exit.OK, told.err
    (result,) = lines(told.out)
    assert (result["result"], result["citations"][0]) == (TEXT, source)
    events = lines(informed("--output-format", "stream-json", "What are foxes?").out)
    kinds = [event["type"] for event in events]
    cited = events[kinds.index("citations")]
    assert events[kinds.index("citations") - 1]["content"] == TEXT
    assert cited["citations"][0] == source
    assert "native" not in json.dumps(cited)
