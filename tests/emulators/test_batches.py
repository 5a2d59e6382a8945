"""Batches and files of four providers: their own clients must not notice the difference, and what is wrong is refused."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

anthropic: Any = pytest.importorskip("anthropic", reason="Anthropic's client is not installed")
httpx: Any = pytest.importorskip("httpx", reason="httpx is not installed")
genai: Any = pytest.importorskip("google.genai", reason="Google's client is not installed")
mistralai: Any = pytest.importorskip("mistralai.client", reason="Mistral's client is not installed")
openai: Any = pytest.importorskip("openai", reason="OpenAI's client is not installed")

DAY = 86_400.0
CLAUDE, GPT, GEMINI, MISTRAL = "claude-sonnet-4-5", "gpt-4.1", "gemini-2.5-flash", "mistral-small-latest"


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(clock: Clock) -> Iterator[Served]:
    rules = [(f"city {n}$", Reply(pieces=(Say(f"answer {n}"),))) for n in range(10)]
    with serve(emulator=Emulator(clock=clock, responder=ScriptedResponder(rules=rules))) as running:
        yield running


@pytest.fixture
def claude(served: Served) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=served.url("anthropic"), api_key="k", max_retries=0) as made:
        yield made


@pytest.fixture
def gpt(served: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=served.url("openai") + "/v1", api_key="k", max_retries=0) as made:
        yield made


@pytest.fixture
def gemini(served: Served) -> Iterator[Any]:
    with genai.Client(api_key="k", http_options={"base_url": served.url("gemini")}) as made:
        yield made


@pytest.fixture
def mistral(served: Served) -> Iterator[Any]:
    with mistralai.Mistral(api_key="k", server_url=served.url("mistral")) as made:
        yield made


def messages(n: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"city {n}"}]


def claude_requests(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "custom_id": f"r{n}",
            "params": {"model": CLAUDE, "max_tokens": 100, "messages": messages(n), **more},
        }
        for n in range(count)
    ]


def gpt_lines(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "custom_id": f"r{n}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": GPT, "messages": messages(n), **more},
        }
        for n in range(count)
    ]


def uploaded(gpt: Any, lines: list[Any], name: str = "requests.jsonl") -> str:
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    file = gpt.files.create(file=(name, content.encode()), purpose="batch")
    return str(file.id)


def started(gpt: Any, lines: list[Any]) -> Any:
    return gpt.batches.create(
        input_file_id=uploaded(gpt, lines), endpoint="/v1/chat/completions", completion_window="24h"
    )


def lines_of(gpt: Any, file_id: str | None) -> dict[str, Any]:
    assert file_id is not None
    text = gpt.files.content(file_id).text
    return {line["custom_id"]: line for line in map(json.loads, text.splitlines())}


# Anthropic


@pytest.mark.rule("ANT-B01", "ANT-B03", "ANT-B04", "ANT-B08")
def test_a_batch_of_messages_is_answered_with_errors_line_by_line_and_in_no_order(claude: Any) -> None:
    requests = claude_requests(9)
    requests[3]["params"]["messages"] = []
    requests[4]["params"]["stream"] = True
    made = claude.messages.batches.create(requests=requests)
    assert (made.processing_status, made.request_counts.processing) == ("in_progress", 9)
    done = claude.messages.batches.retrieve(made.id)
    assert (done.processing_status, done.request_counts.succeeded, done.request_counts.errored) == (
        "ended",
        7,
        2,
    )
    results = list(claude.messages.batches.results(made.id))
    names = [result.custom_id for result in results]
    assert sorted(names) == [f"r{n}" for n in range(9)] and names != sorted(names)
    by_name = {result.custom_id: result.result for result in results}
    assert by_name["r5"].message.content[0].text == "answer 5"
    assert by_name["r5"].message.usage.service_tier == "batch"
    assert by_name["r3"].error.error.type == "invalid_request_error"
    assert "Streaming" in by_name["r4"].error.error.message


@pytest.mark.rule("ANT-B01", "ANT-B02")
@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ([], "at least 1 item"),
        ([{"custom_id": "a b", "params": {}}], r"requests.0.custom_id: String should match pattern"),
        ([{"custom_id": "a" * 65, "params": {}}], "at most 64 characters"),
        ([{"custom_id": "a", "params": {}}] * 2, "must be unique"),
        ([{"custom_id": "a"}], "requests.0.params: Field required"),
        ([{"custom_id": "a", "params": {}, "method": "POST"}], "Extra inputs"),
    ],
)
def test_a_wrong_batch_of_messages_is_refused_at_once(claude: Any, requests: list[Any], words: str) -> None:
    with pytest.raises(anthropic.BadRequestError, match=words):
        claude.messages.batches.create(requests=requests)


@pytest.mark.rule("ANT-B04", "ANT-B08")
def test_what_is_not_answered_in_a_day_expires_and_results_are_kept_for_29_days(
    claude: Any, served: Served, clock: Clock
) -> None:
    served.emulator.batch_rate = 2 / DAY
    made = claude.messages.batches.create(requests=claude_requests(4))
    clock.now += DAY / 2
    assert claude.messages.batches.retrieve(made.id).request_counts.processing == 4
    clock.now += DAY
    ended = claude.messages.batches.retrieve(made.id)
    assert (ended.request_counts.succeeded, ended.request_counts.expired) == (2, 2)
    kinds = {result.custom_id: result.result.type for result in claude.messages.batches.results(made.id)}
    assert kinds == {"r0": "succeeded", "r1": "succeeded", "r2": "expired", "r3": "expired"}
    clock.now += 29 * DAY
    archived = claude.messages.batches.retrieve(made.id)
    assert archived.results_url is None and archived.archived_at is not None


@pytest.mark.rule("ANT-B05", "ANT-B06", "ANT-B07")
def test_a_batch_of_messages_is_cancelled_listed_deleted_and_not_shown_to_others(
    claude: Any, served: Served, clock: Clock
) -> None:
    served.emulator.batch_rate = 1
    made = claude.messages.batches.create(requests=claude_requests(3))
    with pytest.raises(anthropic.BadRequestError, match="cannot be deleted"):
        claude.messages.batches.delete(made.id)
    clock.now += 1
    assert claude.messages.batches.cancel(made.id).processing_status == "canceling"
    ended = claude.messages.batches.retrieve(made.id)
    assert (ended.request_counts.succeeded, ended.request_counts.canceled) == (1, 2)
    other = claude.messages.batches.create(requests=claude_requests(1))
    assert [batch.id for batch in claude.messages.batches.list(limit=1)] == [other.id, made.id]
    stranger = anthropic.Anthropic(base_url=served.url("anthropic"), api_key="other", max_retries=0)
    with stranger, pytest.raises(anthropic.NotFoundError):
        stranger.messages.batches.retrieve(made.id)
    claude.messages.batches.delete(made.id)
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.retrieve(made.id)


@pytest.mark.rule("ANT-F01", "ANT-F02")
def test_files_of_anthropic_belong_to_their_account(claude: Any, served: Served) -> None:
    file = claude.beta.files.upload(file=("note.txt", b"hello", "text/plain"))
    assert (file.filename, file.size_bytes, file.mime_type) == ("note.txt", 5, "text/plain")
    assert claude.beta.files.retrieve_metadata(file.id).id == file.id
    assert [one.id for one in claude.beta.files.list()] == [file.id]
    with pytest.raises(anthropic.BadRequestError, match="not downloadable"):
        claude.beta.files.download(file.id)
    with pytest.raises(anthropic.BadRequestError, match="filename"):
        claude.beta.files.upload(file=("a/b?.txt", b"hello", "text/plain"))
    stranger = anthropic.Anthropic(base_url=served.url("anthropic"), api_key="other", max_retries=0)
    with stranger, pytest.raises(anthropic.NotFoundError, match="File not found"):
        stranger.beta.files.retrieve_metadata(file.id)
    assert claude.beta.files.delete(file.id).id == file.id


# OpenAI


@pytest.mark.rule("OAI-B01", "OAI-B05", "OAI-B06")
def test_a_batch_of_a_file_writes_a_file_of_answers_and_one_of_errors(gpt: Any, served: Served) -> None:
    lines = gpt_lines(5)
    lines[1]["body"]["messages"] = []
    lines[2]["body"]["stream"] = True
    served.emulator.batch_faults.append(Fault(status=500))
    made = started(gpt, lines)
    assert made.status == "validating"
    done = gpt.batches.retrieve(made.id)
    counts = done.request_counts
    assert (done.status, counts.total, counts.completed, counts.failed) == ("completed", 5, 2, 3)
    good, bad = lines_of(gpt, done.output_file_id), lines_of(gpt, done.error_file_id)
    assert {*good} == {"r3", "r4"} and {*bad} == {"r0", "r1", "r2"}
    assert good["r3"]["response"]["body"]["choices"][0]["message"]["content"] == "answer 3"
    assert bad["r0"]["response"]["status_code"] == 500 and bad["r1"]["response"]["status_code"] == 400
    assert bad["r2"]["response"]["body"]["error"]["param"] == "stream"


@pytest.mark.rule("OAI-B04")
@pytest.mark.parametrize(
    ("lines", "code", "line"),
    [
        ([""], "empty_file", None),
        ([*gpt_lines(1), "{no"], "invalid_json_line", 2),
        (gpt_lines(1) * 2, "duplicate_custom_id", 2),
        ([{**gpt_lines(1)[0], "url": "/v1/responses"}], "url_mismatch", 1),
        ([gpt_lines(1)[0], {**gpt_lines(2, model="gpt-4o")[1]}], "model_mismatch", 2),
        ([{"custom_id": "a"}], "missing_required_parameter", 1),
    ],
)
def test_a_wrong_file_fails_the_whole_batch_and_names_the_line(
    gpt: Any, lines: list[Any], code: str, line: int | None
) -> None:
    failed = gpt.batches.retrieve(started(gpt, lines).id)
    assert failed.status == "failed" and failed.output_file_id is None
    assert (failed.errors.data[0].code, failed.errors.data[0].line) == (code, line)


@pytest.mark.rule("OAI-B01", "OAI-B02", "OAI-B03", "OAI-B07")
def test_wrong_files_and_wrong_batches_are_refused(gpt: Any, served: Served) -> None:
    with pytest.raises(openai.BadRequestError, match=r"Must be \.jsonl"):
        uploaded(gpt, gpt_lines(1), "requests.txt")
    with pytest.raises(openai.BadRequestError, match="purpose"):
        gpt.files.create(file=("a.jsonl", b"{}"), purpose="anything")
    file_id = uploaded(gpt, gpt_lines(1))
    good = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    for wrong in (
        {"endpoint": "/v1/messages"},
        {"completion_window": "1h"},
        {"metadata": {"a": "b" * 513}},
        {"extra_body": {"colour": "red"}},
    ):
        with pytest.raises(openai.BadRequestError):
            gpt.batches.create(**{**good, **wrong})
    with pytest.raises(openai.NotFoundError):
        gpt.batches.retrieve("batch_none")
    stranger = openai.OpenAI(base_url=served.url("openai") + "/v1", api_key="other", max_retries=0)
    with stranger, pytest.raises(openai.NotFoundError):
        stranger.files.content(file_id)
    assert [file.id for file in gpt.files.list(purpose="batch")] == [file_id]
    assert gpt.files.delete(file_id).deleted


@pytest.mark.rule("OAI-B06", "OAI-B08")
def test_a_batch_of_a_file_expires_in_part_and_is_cancelled_in_part(
    gpt: Any, served: Served, clock: Clock
) -> None:
    served.emulator.batch_rate = 2 / DAY
    made = started(gpt, gpt_lines(3))
    clock.now += 2 * DAY
    ended = gpt.batches.retrieve(made.id)
    assert ended.status == "expired" and {*lines_of(gpt, ended.output_file_id)} == {"r0", "r1"}
    assert lines_of(gpt, ended.error_file_id)["r2"]["error"]["code"] == "batch_expired"
    with pytest.raises(openai.ConflictError):
        gpt.batches.cancel(made.id)
    second = started(gpt, gpt_lines(3))
    clock.now += DAY / 2
    assert gpt.batches.cancel(second.id).status == "cancelling"
    clock.now += 1
    ended = gpt.batches.retrieve(second.id)
    assert (ended.status, ended.error_file_id) == ("cancelled", None)
    assert {*lines_of(gpt, ended.output_file_id)} == {"r0"}
    assert [batch.id for batch in gpt.batches.list(limit=1)] == [second.id, made.id]


# Gemini


def gemini_requests(count: int) -> list[Any]:
    contents = [{"role": "user", "parts": [{"text": f"city {n}"}]} for n in range(count)]
    return [{"contents": [content], "metadata": {"key": f"r{n}"}} for n, content in enumerate(contents)]


@pytest.mark.rule("GEM-B01", "GEM-B03", "GEM-B05")
def test_a_batch_of_gemini_is_an_operation_whose_responses_are_in_it(gemini: Any) -> None:
    requests = gemini_requests(3)
    requests[1]["contents"] = [{"role": "robot", "parts": [{"text": "x"}]}]
    made = gemini.batches.create(model=GEMINI, src=requests, config={"display_name": "mine"})
    assert made.state.name == "JOB_STATE_PENDING" and made.display_name == "mine"
    done = gemini.batches.get(name=made.name)
    assert done.state.name == "JOB_STATE_SUCCEEDED"
    responses = done.dest.inlined_responses
    assert [response.metadata["key"] for response in responses] == ["r0", "r1", "r2"]
    assert responses[2].response.text == "answer 2" and responses[1].error.code == 3
    assert [batch.name for batch in gemini.batches.list()] == [made.name]
    with pytest.raises(genai.errors.ClientError):
        gemini.batches.get(name="batches/none")


@pytest.mark.rule("GEM-B01", "GEM-B02")
def test_a_wrong_batch_of_gemini_is_refused(gemini: Any) -> None:
    for wrong in (
        {"src": [], "config": {"display_name": "a"}},
        {
            "src": [{"contents": [{"parts": [{"text": "x" * (21 << 20)}]}]}],
            "config": {"display_name": "a"},
        },
    ):
        with pytest.raises(genai.errors.ClientError):
            gemini.batches.create(model=GEMINI, **wrong)
    assert gemini.batches.create(model=GEMINI, src=gemini_requests(1)).state.name == "JOB_STATE_PENDING"


@pytest.mark.rule("GEM-B04", "GEM-B06")
def test_a_batch_of_gemini_that_expires_or_is_cancelled_has_no_results(
    gemini: Any, served: Served, clock: Clock
) -> None:
    served.emulator.batch_rate = 1 / DAY
    config = {"display_name": "mine"}
    made = gemini.batches.create(model=GEMINI, src=gemini_requests(3), config=config)
    clock.now += DAY + 1
    assert gemini.batches.get(name=made.name).state.name == "JOB_STATE_RUNNING"
    clock.now += DAY
    ended = gemini.batches.get(name=made.name)
    assert ended.state.name == "JOB_STATE_EXPIRED" and ended.dest is None
    second = gemini.batches.create(model=GEMINI, src=gemini_requests(3), config=config)
    gemini.batches.cancel(name=second.name)
    assert gemini.batches.get(name=second.name).state.name == "JOB_STATE_CANCELLED"


def gemini_file(gemini: Any, content: bytes) -> Any:
    return gemini.files.upload(
        file=io.BytesIO(content), config={"mime_type": "jsonl", "display_name": "requests"}
    )


@pytest.mark.rule("GEM-B07", "GEM-F01", "GEM-F02", "GEM-F03")
def test_a_batch_of_gemini_in_a_file_has_its_responses_in_a_file(gemini: Any, clock: Clock) -> None:
    lines = [
        {"key": one["metadata"]["key"], "request": {"contents": one["contents"]}}
        for one in gemini_requests(3)
    ]
    lines[1]["request"]["contents"] = [{"role": "robot", "parts": [{"text": "x"}]}]
    written = b"\n".join(json.dumps(line).encode() for line in lines)
    file = gemini_file(gemini, b" " * (9 << 20) + written)  # more than the client sends at once
    assert (file.display_name, file.state.name, file.source.name) == ("requests", "ACTIVE", "UPLOADED")
    made = gemini.batches.create(model=GEMINI, src=file.name, config={"display_name": "mine"})
    done = gemini.batches.get(name=made.name)
    assert (done.state.name, done.dest.inlined_responses) == ("JOB_STATE_SUCCEEDED", None)
    received = gemini.files.download(file=done.dest.file_name).decode().splitlines()
    answers = {answer["key"]: answer for answer in map(json.loads, received)}
    assert answers["r2"]["response"]["candidates"][0]["content"]["parts"][0]["text"] == "answer 2"
    assert answers["r1"]["error"]["code"] == 3
    assert {one.name for one in gemini.files.list()} == {file.name, done.dest.file_name}
    gemini.files.delete(name=file.name)
    with pytest.raises(genai.errors.ClientError):
        gemini.files.get(name=file.name)
    clock.now += 2 * DAY
    with pytest.raises(genai.errors.ClientError):
        gemini.files.download(file=done.dest.file_name)


@pytest.mark.rule("GEM-B07", "GEM-F01", "GEM-F03")
def test_a_wrong_file_of_gemini_is_refused_or_fails_its_batch(gemini: Any, served: Served) -> None:
    config = {"display_name": "a"}
    with pytest.raises(genai.errors.ClientError):
        gemini.batches.create(model=GEMINI, src="files/none", config=config)
    file = gemini_file(gemini, b'{"key": "a", "request": {}}\nnot json\n')
    made = gemini.batches.create(model=GEMINI, src=file.name, config=config)
    assert gemini.batches.get(name=made.name).state.name == "JOB_STATE_FAILED"
    url, key = served.url("gemini"), {"x-goog-api-key": "k"}
    shown = httpx.get(f"{url}/v1beta/{made.name}", headers=key).json()
    assert shown["error"]["message"].startswith("Line 2 of the input file")
    assert httpx.get(f"{url}/v1beta/{file.name}:download?alt=media", headers=key).status_code == 400
    started = {**key, "x-goog-upload-command": "start", "x-goog-upload-header-content-type": "text/plain"}
    address = httpx.post(f"{url}/upload/v1beta/files", headers=started).headers["x-goog-upload-url"]
    ahead = {**key, "x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "5"}
    assert httpx.post(address, headers=ahead, content=b"late").status_code == 400
    assert httpx.post(f"{url}/upload/v1beta/files?upload_id=none", headers=ahead).status_code == 404
    untyped = {**key, "x-goog-upload-command": "start"}
    assert httpx.post(f"{url}/upload/v1beta/files", headers=untyped).status_code == 400


# Mistral


def mistral_job(mistral: Any, lines: list[Any], **more: Any) -> Any:
    content = "\n".join(map(json.dumps, lines)).encode() + b"\n"
    file = mistral.files.upload(
        file={"file_name": "in.jsonl", "content": io.BytesIO(content)}, purpose="batch"
    )
    given = {"endpoint": "/v1/chat/completions", "model": MISTRAL, "input_files": [file.id], **more}
    return mistral.batch.jobs.create(**given)


def mistral_lines(count: int) -> list[dict[str, Any]]:
    return [{"custom_id": f"r{n}", "body": {"messages": messages(n)}} for n in range(count)]


@pytest.mark.rule("MIS-B01", "MIS-B04", "MIS-B05", "MIS-B06")
def test_a_job_of_mistral_writes_its_answers_and_errors(mistral: Any, served: Served) -> None:
    lines = mistral_lines(3)
    lines[1]["body"]["messages"] = []
    made = mistral_job(mistral, lines, metadata={"mine": "yes"})
    assert made.status == "QUEUED"
    done = mistral.batch.jobs.get(job_id=made.id)
    assert (done.status, done.succeeded_requests, done.failed_requests) == ("SUCCESS", 2, 1)
    output = mistral.files.download(file_id=done.output_file).read().decode()
    answers = {line["custom_id"]: line for line in map(json.loads, output.splitlines())}
    assert answers["r2"]["response"]["body"]["choices"][0]["message"]["content"] == "answer 2"
    failed = json.loads(mistral.files.download(file_id=done.error_file).read())
    assert failed["custom_id"] == "r1" and failed["response"]["status_code"] >= 400
    assert [job.id for job in mistral.batch.jobs.list().data] == [made.id]
    stranger = mistralai.Mistral(api_key="other", server_url=served.url("mistral"))
    with stranger, pytest.raises(mistralai.errors.SDKError):
        stranger.batch.jobs.get(job_id=made.id)


@pytest.mark.rule("MIS-B01", "MIS-B02", "MIS-B03")
def test_wrong_files_and_jobs_of_mistral_are_refused(mistral: Any) -> None:
    wrong: tuple[dict[str, Any], ...] = ({"input_files": []}, {"timeout_hours": 0}, {"timeout_hours": 500})
    for more in wrong:
        with pytest.raises(mistralai.errors.MistralError):
            mistral_job(mistral, mistral_lines(1), **more)
    with pytest.raises(mistralai.errors.MistralError):
        mistral_job(mistral, [{"custom_id": "a"}])
    with pytest.raises(mistralai.errors.MistralError):
        mistral_job(mistral, mistral_lines(1), input_files=["none"])


@pytest.mark.rule("MIS-B05", "MIS-B06")
def test_a_job_of_mistral_times_out_and_is_cancelled_in_part(
    mistral: Any, served: Served, clock: Clock
) -> None:
    served.emulator.batch_rate = 1
    made = mistral_job(mistral, mistral_lines(4))
    clock.now += 2
    assert mistral.batch.jobs.cancel(job_id=made.id).status == "CANCELLATION_REQUESTED"
    ended = mistral.batch.jobs.get(job_id=made.id)
    assert (ended.status, ended.succeeded_requests) == ("CANCELLED", 2)
    served.emulator.batch_rate = 2 / DAY
    made = mistral_job(mistral, mistral_lines(4))
    clock.now += DAY
    assert mistral.batch.jobs.get(job_id=made.id).status == "TIMEOUT_EXCEEDED"
