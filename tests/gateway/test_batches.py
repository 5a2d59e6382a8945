"""Batches and files through the gateway, by the official SDKs over real HTTP: passed on, kept apart by caller, charged once."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
import uvicorn

from gateway.test_sdks import imported
from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import CallerSettings
from segue.gateway.accounts.account import digest_of
from segue.providers.models.prices import cost_of

ANN, BOB, EVE = (f"segue-{name}-0123456789abcdef" for name in ("ann", "bob", "eve"))
CALLERS = {
    name: CallerSettings(key_sha256=digest_of(key), dollars_per_day=limit)
    for name, key, limit in (("ann", ANN, 5.0), ("bob", BOB, 0.01))
} | {"eve": CallerSettings(key_sha256=digest_of(EVE), models=["small"])}
ANSWER = "I know: 0 results."
HI = [{"role": "user", "content": "Hello."}]


@pytest.fixture
def world() -> GatewayWorld:
    return GatewayWorld(callers=CALLERS, models={"small": ROUTES["chat"], "claude": ROUTES["anthropic"]})


@pytest.fixture
def address(world: GatewayWorld) -> Iterator[str]:
    config = uvicorn.Config(world.gateway, host="127.0.0.1", port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join(5)


def charges(world: GatewayWorld) -> list[tuple[str, str, float | None]]:
    """Who paid what, for each request of theirs that cost something."""
    return [
        (report.caller, expense.route, expense.dollars)
        for report in world.reports
        for expense in report.expenses
        if expense.usage.total_tokens
    ]


def test_openai_files_and_batches(world: GatewayWorld, address: str) -> None:
    openai = imported("openai")
    lines = [
        {
            "custom_id": f"r{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "small", "messages": HI},
        }
        for n in range(3)
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    with openai.OpenAI(api_key=ANN, base_url=f"{address}/v1", max_retries=0) as ann:
        file = ann.files.create(file=("in.jsonl", content), purpose="batch")
        batch = ann.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        done = ann.batches.retrieve(batch.id)
        assert (done.status, done.request_counts.completed) == ("completed", 3)
        texts = [ann.files.content(done.output_file_id).text for _ in range(2)]
        assert texts[0] == texts[1]
        answers = [json.loads(line)["response"]["body"] for line in texts[0].splitlines()]
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == [ANSWER] * 3
        assert [one.id for one in ann.batches.list()] == [batch.id]
        with openai.OpenAI(api_key=BOB, base_url=f"{address}/v1", max_retries=0) as bob:
            assert list(bob.batches.list()) == []
            with pytest.raises(openai.NotFoundError):
                bob.batches.retrieve(batch.id)
            with pytest.raises(openai.NotFoundError):
                bob.files.content(done.output_file_id)
            with pytest.raises(openai.NotFoundError):
                bob.files.retrieve(file.id)
            with pytest.raises(openai.NotFoundError):
                bob.batches.create(
                    input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
                )
        assert ann.files.delete(file.id).deleted
    [(caller, route, dollars)] = charges(world)
    assert (caller, route) == ("ann", ROUTES["chat"])
    usage = world.reports[[bool(report.expenses) for report in world.reports].index(True)].usage
    assert usage.tier == "batch" and dollars == pytest.approx(cost_of(usage, "openai", "gpt-4.1") or 0)


def test_anthropic_message_batches(world: GatewayWorld, address: str) -> None:
    anthropic = imported("anthropic")
    params = {"model": "claude", "max_tokens": 100, "messages": HI}
    with anthropic.Anthropic(api_key=ANN, base_url=address, max_retries=0) as ann:
        batch = ann.messages.batches.create(requests=[{"custom_id": "a", "params": params}])
        assert ann.messages.batches.retrieve(batch.id).results_url.startswith(address)
        for _ in range(2):
            [result] = ann.messages.batches.results(batch.id)
            assert result.result.message.content[-1].text == ANSWER
        assert [one.id for one in ann.messages.batches.list()] == [batch.id]
        with (
            anthropic.Anthropic(api_key=BOB, base_url=address, max_retries=0) as bob,
            pytest.raises(anthropic.NotFoundError),
        ):
            bob.messages.batches.cancel(batch.id)
        ann.messages.batches.delete(batch.id)
        with pytest.raises(anthropic.NotFoundError):
            ann.messages.batches.retrieve(batch.id)
    assert [(caller, route) for caller, route, _ in charges(world)] == [("ann", ROUTES["anthropic"])]


def test_anthropic_files(world: GatewayWorld, address: str) -> None:
    anthropic = imported("anthropic")
    with anthropic.Anthropic(api_key=ANN, base_url=address, max_retries=0) as ann:
        file = ann.beta.files.upload(file=("note.txt", b"hello", "text/plain"))
        assert [one.id for one in ann.beta.files.list()] == [file.id]
        assert ann.beta.files.retrieve_metadata(file.id).filename == "note.txt"
        with anthropic.Anthropic(api_key=BOB, base_url=address, max_retries=0) as bob:
            assert list(bob.beta.files.list()) == []
            with pytest.raises(anthropic.NotFoundError):
                bob.beta.files.delete(file.id)
        ann.beta.files.delete(file.id)
        with pytest.raises(anthropic.NotFoundError):
            ann.beta.files.retrieve_metadata(file.id)
    assert charges(world) == []


def test_gemini_batches(world: GatewayWorld, address: str) -> None:
    genai = imported("google.genai")
    model = ROUTES["gemini"].partition("/")[2]
    with genai.Client(api_key=ANN, http_options={"base_url": address}) as ann:
        made = ann.batches.create(
            model=model,
            src=[{"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}],
            config={"display_name": "mine"},
        )
        (listed,) = ann.batches.list()
        assert (listed.name, listed.state.name, listed.dest) == (made.name, "JOB_STATE_SUCCEEDED", None)
        assert charges(world) == []
        for _ in range(2):
            done = ann.batches.get(name=made.name)
            assert done.dest.inlined_responses[0].response.text == ANSWER
        (listed,) = ann.batches.list()
        assert listed.dest.inlined_responses[0].response.text == ANSWER  # they are paid for
        with (
            genai.Client(api_key=BOB, http_options={"base_url": address}) as bob,
            pytest.raises(genai.errors.ClientError),
        ):
            bob.batches.get(name=made.name)
        ann.batches.delete(name=made.name)
    assert [(caller, route) for caller, route, _ in charges(world)] == [("ann", ROUTES["gemini"])]


LINES = b"\n".join(
    json.dumps(
        {"key": f"r{n}", "request": {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}}
    ).encode()
    for n in range(3)
)
JSONL = {"mime_type": "application/jsonl"}


def test_gemini_batches_of_a_file(world: GatewayWorld, address: str) -> None:
    genai = imported("google.genai")
    model = ROUTES["gemini"].partition("/")[2]
    with genai.Client(api_key=ANN, http_options={"base_url": address}) as ann:
        file = ann.files.upload(file=io.BytesIO(LINES), config=JSONL)
        assert ann.files.get(name=file.name).size_bytes == len(LINES)
        assert [one.name for one in ann.files.list()] == [file.name]
        made = ann.batches.create(model=model, src=file.name, config={"display_name": "mine"})
        (listed,) = ann.batches.list()
        assert (listed.name, listed.dest) == (made.name, None)
        assert charges(world) == []
        done = ann.batches.get(name=made.name)
        texts = [ann.files.download(file=done.dest.file_name) for _ in range(2)]
        answers = [json.loads(line) for line in texts[0].splitlines()]
        assert {one["key"] for one in answers} == {"r0", "r1", "r2"}
        assert {one["response"]["candidates"][0]["content"]["parts"][-1]["text"] for one in answers} == {
            ANSWER
        }
        assert texts[0] == texts[1]
        with genai.Client(api_key=BOB, http_options={"base_url": address}) as bob:
            assert list(bob.files.list()) == []
            attempts: list[Callable[[], object]] = [
                lambda: bob.files.get(name=file.name),
                lambda: bob.files.delete(name=file.name),
                lambda: bob.files.download(file=done.dest.file_name),
                lambda: bob.batches.create(model=model, src=file.name, config={"display_name": "his"}),
            ]
            for attempt in attempts:
                with pytest.raises(genai.errors.ClientError, match="There is no batch or file"):
                    attempt()
        ann.batches.delete(name=made.name)
        assert ann.files.download(file=done.dest.file_name) == texts[0]  # it is paid for
        ann.files.delete(name=file.name)
        with pytest.raises(genai.errors.ClientError, match="There is no batch or file"):
            ann.batches.create(model=model, src=file.name, config={"display_name": "late"})
    [(caller, route, dollars)] = charges(world)
    assert (caller, route) == ("ann", ROUTES["gemini"])
    usage = world.reports[[bool(report.expenses) for report in world.reports].index(True)].usage
    assert usage.tier == "batch" and dollars == pytest.approx(cost_of(usage, "gemini", model) or 0)


def test_a_file_of_another_caller_is_in_no_request(world: GatewayWorld, address: str) -> None:
    genai, openai, anthropic = imported("google.genai"), imported("openai"), imported("anthropic")
    model = ROUTES["gemini"].partition("/")[2]

    def contents(uri: str) -> list[dict[str, Any]]:
        part = {"file_data": {"file_uri": uri, "mime_type": "application/pdf"}}
        return [{"role": "user", "parts": [{"text": "Read it."}, part]}]

    with genai.Client(api_key=ANN, http_options={"base_url": address}) as ann:
        file = ann.files.upload(file=io.BytesIO(b"%PDF-1.4"), config={"mime_type": "application/pdf"})
        assert ann.models.generate_content(model=model, contents=contents(file.uri)).text == ANSWER
    with genai.Client(api_key=BOB, http_options={"base_url": address}) as bob:
        sent = len(world.emulator.log)
        for uri in (file.uri, file.name, f"{file.uri}?alt=media"):
            with pytest.raises(genai.errors.ClientError, match="is held by the provider"):
                bob.models.generate_content(model=model, contents=contents(uri))
            with pytest.raises(genai.errors.ClientError, match="is held by the provider"):
                bob.batches.create(
                    model=model, src=[{"contents": contents(uri)}], config={"display_name": "a"}
                )
        assert len(world.emulator.log) == sent
    with anthropic.Anthropic(api_key=ANN, base_url=address, max_retries=0) as hers:
        note = hers.beta.files.upload(file=("note.txt", b"hello", "text/plain"))
    block = {"type": "document", "source": {"type": "file", "file_id": note.id}}
    asked = {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": [block]}]}
    with anthropic.Anthropic(api_key=BOB, base_url=address, max_retries=0) as his:
        with pytest.raises(anthropic.APIStatusError, match=note.id):
            his.beta.messages.create(**asked, betas=["files-api-2025-04-14"])
        with pytest.raises(anthropic.APIStatusError, match=note.id):
            his.messages.batches.create(requests=[{"custom_id": "a", "params": asked}])
    with openai.OpenAI(api_key=ANN, base_url=f"{address}/v1", max_retries=0) as hers:
        report = hers.files.create(file=("a.pdf", b"%PDF-1.4"), purpose="user_data")
    said = [{"role": "user", "content": [{"type": "file", "file": {"file_id": report.id}}]}]
    with openai.OpenAI(api_key=BOB, base_url=f"{address}/v1", max_retries=0) as his:
        with pytest.raises(openai.APIStatusError, match=report.id):
            his.chat.completions.create(model="small", messages=said)
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
        lines = json.dumps({**line, "body": {"model": "small", "messages": said}}).encode()
        with pytest.raises(openai.APIStatusError, match=report.id):
            his.files.create(file=("in.jsonl", lines), purpose="batch")


def started(client: httpx.Client, size: int, **headers: str) -> httpx.Response:
    told = {
        "x-goog-upload-protocol": "resumable",
        "x-goog-upload-command": "start",
        "x-goog-upload-header-content-length": str(size),
        "x-goog-upload-header-content-type": "application/jsonl",
    }
    return client.post("/upload/v1beta/files", json={"file": {}}, headers={**told, **headers})


def piece(offset: int, *, last: bool = False) -> dict[str, str]:
    command = "upload, finalize" if last else "upload"
    return {"x-goog-upload-command": command, "x-goog-upload-offset": str(offset)}


def test_the_address_of_an_upload_takes_its_bytes_and_opens_nothing_else(
    world: GatewayWorld, address: str
) -> None:
    bob, half = {"x-goog-api-key": BOB}, len(LINES) // 2
    with httpx.Client(base_url=address) as client:
        assert started(client, len(LINES)).status_code == 401
        begun = started(client, len(LINES), **{"x-goog-api-key": ANN})
        place = begun.headers["x-goog-upload-url"]
        assert place.startswith(f"{address}/upload/v1beta/files?") and ANN not in place
        assert client.post(place, content=b"mine", headers={**piece(0), **bob}).status_code == 404
        assert client.post(place[:-40], content=b"mine", headers=piece(0)).status_code == 401
        secret = place.partition("?")[2]
        for path in ("/v1beta/files", "/v1beta/batches", "/v1beta/models"):
            assert client.get(f"{path}?{secret}").status_code == 401
        asked = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
        model = ROUTES["gemini"].partition("/")[2]
        assert client.post(f"/v1beta/models/{model}:generateContent?{secret}", json=asked).status_code == 401
        sent = client.post(place, content=LINES[:half], headers=piece(0))
        assert sent.headers["x-goog-upload-status"] == "active"
        assert client.post(place, content=b"again", headers=piece(0)).status_code == 400
        sent = client.post(place, content=LINES[half:], headers=piece(half, last=True))
        assert (sent.status_code, sent.headers["x-goog-upload-status"]) == (200, "final")
        assert "x-goog-upload-url" not in sent.headers
        name = sent.json()["file"]["name"]
        assert world.emulator.memory("gemini")["files"][name].content == LINES
        assert client.post(place, content=b"more", headers=piece(0)).status_code == 401
        assert client.get(f"/v1beta/{name}", headers=bob).status_code == 404
        assert client.get(f"/v1beta/{name}", headers={"x-goog-api-key": ANN}).status_code == 200
        plain = started(client, 3, **{"x-goog-api-key": ANN, "x-goog-upload-protocol": "raw"})
        assert (plain.status_code, "resumable" in plain.text) == (400, True)
    assert charges(world) == []


def test_a_file_whose_batch_its_caller_cannot_pay_or_may_not_send_is_not_handed_over(
    world: GatewayWorld, address: str
) -> None:
    genai = imported("google.genai")
    words = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hello. " * 100_000}]}]}).encode()
    for key, error in ((BOB, "no budget for a batch"), (EVE, "may not use the model")):
        with genai.Client(api_key=key, http_options={"base_url": address}) as client:
            lines = b'{"key": "a", "request": ' + words + b"}"
            file = client.files.upload(file=io.BytesIO(lines), config=JSONL)
            with pytest.raises(genai.errors.ClientError, match=error):
                client.batches.create(
                    model="gemini/gemini-2.5-pro", src=file.name, config={"display_name": "a"}
                )
    assert not [entry for entry in world.emulator.log if "batchGenerateContent" in entry.path]


def test_an_upload_goes_on_behind_another_process_of_the_gateway(world: GatewayWorld) -> None:
    async def story() -> None:
        key = {"x-goog-api-key": ANN}
        told = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}
        kind = {"x-goog-upload-header-content-type": "application/jsonl"}
        begun = await world.ask("/upload/v1beta/files", b"{}", headers={**key, **told, **kind})
        place = begun.headers["x-goog-upload-url"]
        target = place[place.index("/upload/") :]
        await world.gateway.settle()
        world.restart()
        sent = await world.ask(target, LINES, headers=piece(0, last=True))
        assert (sent.status, sent.headers["x-goog-upload-status"]) == (200, "final")

    asyncio.run(story())


def test_mistral_jobs(world: GatewayWorld, address: str) -> None:
    mistralai = imported("mistralai.client")
    line = json.dumps({"custom_id": "a", "body": {"messages": HI}}).encode()
    with mistralai.Mistral(api_key=ANN, server_url=address) as ann:
        file = ann.files.upload(file={"file_name": "in.jsonl", "content": io.BytesIO(line)}, purpose="batch")
        job = ann.batch.jobs.create(
            endpoint="/v1/chat/completions", model=ROUTES["mistral"], input_files=[file.id]
        )
        done = ann.batch.jobs.get(job_id=job.id)
        assert done.status == "SUCCESS"
        for _ in range(2):
            answer = json.loads(ann.files.download(file_id=done.output_file).read())
            assert answer["response"]["body"]["choices"][0]["message"]["content"] == ANSWER
    assert [(caller, route) for caller, route, _ in charges(world)] == [("ann", ROUTES["mistral"])]


def test_a_job_of_a_file_that_its_caller_cannot_pay_is_not_handed_over(
    world: GatewayWorld, address: str
) -> None:
    mistralai = imported("mistralai.client")
    long = [{"role": "user", "content": "Hello. " * 100_000}]
    line = json.dumps({"custom_id": "a", "body": {"messages": long}}).encode()
    with mistralai.Mistral(api_key=BOB, server_url=address) as bob:
        file = bob.files.upload(file={"file_name": "in.jsonl", "content": io.BytesIO(line)}, purpose="batch")
        with pytest.raises(mistralai.errors.MistralError, match="no budget for a batch"):
            bob.batch.jobs.create(
                endpoint="/v1/chat/completions", model=ROUTES["mistral"], input_files=[file.id]
            )
    assert not [entry for entry in world.emulator.log if entry.path.endswith("/batch/jobs")]


def test_what_a_caller_cannot_pay_is_not_handed_over_nor_what_no_provider_of_the_wire_answers(
    world: GatewayWorld, address: str
) -> None:
    anthropic = imported("anthropic")
    long = [{"role": "user", "content": "Hello. " * 10_000}]
    with anthropic.Anthropic(api_key=BOB, base_url=address, max_retries=0) as bob:
        params = {"model": "claude", "max_tokens": 100, "messages": long}
        with pytest.raises(anthropic.APIStatusError, match="no budget for a batch"):
            bob.messages.batches.create(requests=[{"custom_id": "a", "params": params}])
    with anthropic.Anthropic(api_key=ANN, base_url=address, max_retries=0) as ann:
        elsewhere = {"model": "small", "max_tokens": 100, "messages": HI}
        with pytest.raises(anthropic.BadRequestError, match="has no batches of this API"):
            ann.messages.batches.create(requests=[{"custom_id": "a", "params": elsewhere}])
    assert not [entry for entry in world.emulator.log if entry.method == "POST"]


def test_a_file_for_a_model_that_the_caller_may_not_use_is_not_uploaded(
    address: str, world: GatewayWorld
) -> None:
    openai = imported("openai")

    def line(model: str) -> str:
        body = json.dumps({"model": model, "messages": HI})
        return f'{{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {body}}}'

    twice = line("small").replace('"body": {', '"body": {"model": "openai/gpt-5.5"}, "body": {')
    with openai.OpenAI(api_key=EVE, base_url=f"{address}/v1", max_retries=0) as eve:
        for lines, error in (
            ([line("openai/gpt-5.5")], openai.PermissionDeniedError),
            ([line("small"), line("openai/gpt-5.5")], openai.PermissionDeniedError),
            ([line("small"), "\ufeff" + line("openai/gpt-5.5")], openai.BadRequestError),
        ):
            with pytest.raises(error):
                eve.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        file = eve.files.create(file=("in.jsonl", twice.encode()), purpose="batch")
        stored = world.emulator.memory("openai")["files"][file.id]
        assert b"gpt-5.5" not in stored.content and b"gpt-4.1" in stored.content


def test_a_restart_forgets_neither_who_made_a_batch_nor_that_it_was_paid(
    world: GatewayWorld,
) -> None:
    async def story() -> None:
        headers = {"x-api-key": ANN, "anthropic-version": "2023-06-01"}
        params = {"model": "claude", "max_tokens": 100, "messages": HI}
        asked = {"requests": [{"custom_id": "a", "params": params}]}
        made = await world.ask("/v1/messages/batches", asked, headers=headers)
        path = f"/v1/messages/batches/{made.json()['id']}/results"
        for _ in range(2):
            got = await world.ask(path, method="GET", headers=headers)
            assert got.status == 200 and b"succeeded" in got.body
            await world.gateway.settle()
            world.restart()
        assert len(charges(world)) == 1

    asyncio.run(story())


def test_two_fetches_at_once_are_charged_once(world: GatewayWorld, address: str) -> None:
    headers = {"x-api-key": ANN, "anthropic-version": "2023-06-01"}
    params = {"model": "claude", "max_tokens": 100, "messages": HI}
    asked = {"requests": [{"custom_id": f"a{n}", "params": params} for n in range(20)]}
    with closing(httpx.Client(headers=headers)) as client:
        made = client.post(f"{address}/v1/messages/batches", json=asked).json()

    async def fetch() -> list[Any]:
        async with httpx.AsyncClient(headers=headers) as client:
            url = f"{address}/v1/messages/batches/{made['id']}/results"
            return await asyncio.gather(*(client.get(url) for _ in range(5)))

    assert {len(answer.text.splitlines()) for answer in asyncio.run(fetch())} == {20}
    assert len(charges(world)) == 1


def test_results_that_nobody_fetches_are_charged_once_their_caller_has_seen_the_end(
    world: GatewayWorld,
) -> None:
    async def story() -> None:
        headers = {"x-api-key": ANN, "anthropic-version": "2023-06-01"}
        params = {"model": "claude", "max_tokens": 100, "messages": HI}
        asked = {"requests": [{"custom_id": "a", "params": params}]}
        made = await world.ask("/v1/messages/batches", asked, headers=headers)
        path = f"/v1/messages/batches/{made.json()['id']}"
        for _ in range(2):
            assert (await world.ask(path, method="GET", headers=headers)).json()[
                "processing_status"
            ] == "ended"
        assert [(caller, route) for caller, route, _ in charges(world)] == [("ann", ROUTES["anthropic"])]

        bearer = {"authorization": f"Bearer {ANN}"}
        line = {
            "custom_id": "a",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "small", "messages": HI},
        }
        form = (
            b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            b'--x\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
            + json.dumps(line).encode()
            + b"\r\n--x--\r\n"
        )
        uploaded = await world.ask(
            "/v1/files", form, headers={**bearer, "content-type": "multipart/form-data; boundary=x"}
        )
        job = {
            "input_file_id": uploaded.json()["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
        made = await world.ask("/v1/batches", job, headers=bearer)
        for _ in range(2):
            done = await world.ask(f"/v1/batches/{made.json()['id']}", method="GET", headers=bearer)
        await world.ask(f"/v1/files/{done.json()['output_file_id']}/content", method="GET", headers=bearer)
        assert [route for _, route, _ in charges(world)] == [ROUTES["anthropic"], ROUTES["chat"]]

    asyncio.run(story())
