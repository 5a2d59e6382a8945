"""The files in deploy/ start the gateway with words that it knows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from segue.cli.command_table import parser_of

DEPLOY = Path(__file__).parent.parent / "deploy"


def test_the_container_and_the_service_start_the_gateway() -> None:
    container = json.loads(
        re.findall(r"^CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)[-1]
    )
    service = shlex.split(
        re.findall(r"^ExecStart=(.*)$", (DEPLOY / "segue.service").read_text(), re.MULTILINE)[0]
    )
    for words in (container, service):
        assert Path(words[0]).name == "segue"
        assert words[1] == "serve"
        parser_of("serve").parse_args(words[2:])


def test_a_proxy_passes_streams_on_as_they_come() -> None:
    text = (DEPLOY / "nginx.conf").read_text()
    assert "proxy_buffering off;" in text
    assert text.count("{") == text.count("}")
