"""The outputs on docs/doctor.md are those of the commands above them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "doctor.md").read_text("utf-8")
SHOWN = re.findall(r"```console\n\$ segue (.*?)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "output"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_on_the_page_says_what_the_page_says(command: str, output: str) -> None:
    words = [sys.executable, "-c", "from segue.cli import main; main()", *shlex.split(command)]
    told = subprocess.run(words, capture_output=True, check=False, timeout=60, cwd=ROOT)  # noqa: S603
    assert told.stdout.decode() + told.stderr.decode() == output
