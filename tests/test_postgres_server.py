"""The server that tests share outlives whoever started it, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from postgres_server import USER, installation, shared_server

STARTER = (
    "import sys, postgres_server as s, pathlib\nwith s.shared_server(pathlib.Path(sys.argv[1])): input()"
)


@pytest.mark.skipif(installation() is None, reason="no build of PostgreSQL for this platform")
def test_whoever_comes_after_a_killed_starter_gets_a_server_that_lives(tmp_path: Path) -> None:
    place = tmp_path / "place"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", STARTER, str(place)], env=environment, stdin=subprocess.PIPE
    ) as starter:
        while not _children(starter.pid):
            time.sleep(0.005)
        starter.send_signal(signal.SIGKILL)
    with (
        shared_server(place) as folder,
        psycopg.connect(host=str(folder), user=USER, dbname="postgres") as one,
    ):
        assert one.execute("SELECT 1").fetchone() == (1,)


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()
