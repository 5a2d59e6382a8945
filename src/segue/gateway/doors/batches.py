"""Batches and files of a client's own API: passed on to a provider of the same wire, kept apart by caller, and charged once.

Nothing is translated: ids, files and limits are the provider's own. A model's name in a request may be a name of ours. Who made a
batch or a file is remembered; to everybody else it does not exist. Its caller pays when the gateway first sees that it has ended:
when its state is asked for, or its results are fetched.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, structs

from segue.conversation.usage import Usage
from segue.dialects.registry import DIALECTS
from segue.dialects.server_side.references import Reference, references_in
from segue.errors import InvalidRequestError, SegueError
from segue.gateway.accounts import costs
from segue.gateway.doors.multipart import form_fields, with_file
from segue.gateway.doors.uploads import Uploads, is_upload
from segue.gateway.requests.client_errors import model_error
from segue.gateway.requests.web import JSON_TYPE, WebResponse, own_address
from segue.gateway.stored_objects.file_owners import FileOwners
from segue.providers.batches.wire_batch import WireBatch, usage_in
from segue.routing.route import Route, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.gateway.accounts.account import Account
    from segue.gateway.accounts.register import Accounts
    from segue.gateway.doors.paths import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import ResponseWriter, WebRequest
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.batches.wire_batch import BatchAccess
    from segue.providers.registry import KnownProviders

_KIND: Final = "batch or file"
_VERSION: Final = re.compile(r"/v1[a-z0-9]*(?=/)")
_OUTPUT_FILES: Final = ("output_file_id", "error_file_id", "output_file", "error_file")
_HISTORIES: Final = ("thread", "previous_response_id", "conversation")
_BYTES_PER_TOKEN: Final = 4


@final
class _Wire(Struct, frozen=True):
    """How a wire has its batches."""

    service: str
    """The module of `providers.batches`, as addresses name it."""
    creates: str
    """The end of the path that creates one."""
    versioned: bool = True
    """Whether the version of a path is part of its provider's base URL."""
    ids: str = "id"
    """The field with the id of what was created."""
    lists: tuple[str, ...] = ("data",)


_WIRES: Final = {
    "openai_chat": _Wire("openai_like", "/batches"),
    "anthropic": _Wire("anthropic", "/batches", versioned=False),
    "gemini": _Wire("gemini", ":batchGenerateContent", ids="name", lists=("operations", "files")),
    "mistral": _Wire("mistral", "/jobs"),
}


@final
class _Held(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch or a file of a caller. It is kept as JSON."""

    provider: str
    asked: str = ""
    """The model's name that the client asked for."""
    route: str = ""
    """provider/model; empty if the requests are for several models, or for none."""
    size: int = 0
    """Of a file, in bytes."""
    results: bool = False
    """A file of results."""
    batch: str = ""
    """Under whose id a file of results is charged, if not under its own."""
    charged: bool = False


@final
class ClientBatches:
    """Serves the paths of batches and files."""

    def __init__(
        self, names: ModelNames, providers: KnownProviders, memory: Memory, accounts: Accounts
    ) -> None:
        self._names = names
        self._providers = providers
        self._memory = memory
        self._accounts = accounts
        self.uploads = Uploads(memory, accounts)
        self._owners = FileOwners(memory)
        self._charging: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def serve(
        self, door: Door, request: WebRequest, account: Account, writer: ResponseWriter, report: RequestReport
    ) -> None:
        wire = _WIRES[door.dialect.name]
        if is_upload(door):
            await writer.whole(await self._uploaded(wire, door, request, account))
        elif "id" in door.params:
            await self._serve_held(wire, door, request, account, writer, report)
        elif request.method == "GET":
            await writer.whole(await self._listed(wire, door, request, account))
        else:
            await writer.whole(await self._created(wire, door, request, account, report))

    # New ones

    async def _created(
        self, wire: _Wire, door: Door, request: WebRequest, account: Account, report: RequestReport
    ) -> WebResponse:
        asked: list[str] = []

        def meant(name: str) -> Route:
            asked.append(name)
            return self._route(wire, name, account)

        is_batch = request.path.endswith(wire.creates)
        files = await self._input_files(door, request, account) if is_batch else []
        names_model = "model" in door.params or bool(_fields(request.body).get("model") if files else "")
        of_file = files[0] if files and not names_model else None
        if of_file is not None:
            access, body, routes = self._access(of_file.provider), request.body, list[str]()
        else:
            read = _read_requests(door, request, meant)
            for name, reference in read.files.items():
                if await self._owners.is_anothers(account.name, name):
                    raise reference.refusal
            body, found = read.body, read.routes
            access = self._only(wire, found)
            routes = [*dict.fromkeys(route.name for route in found)]
        if any(file.provider != access.provider for file in files):
            raise InvalidRequestError(
                f"{access.provider} does not hold the file of this batch.",
                code="several_providers",
                status=400,
                hint=f"Ask for a model of {files[0].provider}, or upload the file anew.",
            )
        path = self._path(wire, door, model=routes[0].partition("/")[2] if routes else "")
        report.asked = asked[0] if asked else of_file.asked if of_file is not None else ""
        report.route = routes[0] if routes else of_file.route if of_file is not None else ""
        size = len(body) + sum(file.size for file in files)
        estimate = [(name, size // max(len(routes), 1) // _BYTES_PER_TOKEN) for name in routes]
        async with costs.affordable(self._accounts, account, estimate if is_batch or asked else []):
            answered = await self._asked(access, request, path, body)
        fields = _fields(answered.body)
        held = of_file or _Held(
            provider=access.provider,
            asked=report.asked,
            route=routes[0] if len(routes) == 1 else "",
            size=_number(fields.get("bytes")),
        )
        name = str(fields.get(wire.ids, ""))
        await self._hold(account, door, name, held)
        if not is_batch:
            await self._owners.put(account.name, name)
        return _shown(request, answered, fields)

    async def _uploaded(self, wire: _Wire, door: Door, request: WebRequest, account: Account) -> WebResponse:
        """The beginning of an upload in pieces, or a piece."""
        provider = await self.uploads.provider(request, account)
        if not provider:
            return await self.uploads.begin(door, request, account, self._only(wire, []))
        answered, file = await self.uploads.bring(request, self._access(provider))
        held = _Held(provider=provider, size=_number(file.get("sizeBytes")))
        name = str(file.get("name", ""))
        await self._hold(account, door, name, held)
        await self._owners.put(account.name, name)
        return answered

    async def _input_files(self, door: Door, request: WebRequest, account: Account) -> list[_Held]:
        """The files that a batch is made of, each of this caller."""
        fields = _fields(request.body)
        given = fields.get("input_files")
        names = [
            fields.get("input_file_id"),
            *(given if isinstance(given, list) else ()),
            _of(_of(fields.get("batch"), "inputConfig", "input_config"), "fileName", "file_name"),
        ]
        return [await self._find(account, door, name) for name in names if isinstance(name, str)]

    def _route(self, wire: _Wire, name: str, account: Account) -> Route:
        """The route behind a name that has batches of this wire. Raises if there is none, or not for this caller."""
        routes = self._names.router(name).routes
        if not account.may_use(name, tuple(route.name for route in routes)):
            raise model_error(account, name)
        for route in routes:
            access = provider_of(route, self._providers).capabilities.batches
            if access is not None and access.wire == wire.service:
                return route
        raise InvalidRequestError(
            f"{routes[0].name} has no batches of this API.",
            code="no_batch_endpoint",
            path="model",
            status=400,
            hint="Batches are not translated: ask for a model of the API that you use.",
        )

    def _only(self, wire: _Wire, routes: list[Route]) -> BatchAccess:
        """The one provider that all requests go to; where none names a model, the one whose API it is."""
        providers = dict.fromkeys(route.provider for route in routes)
        if len(providers) > 1:
            raise InvalidRequestError(
                f"The requests are for {' and '.join(providers)}, and a batch goes to one provider.",
                code="several_providers",
                status=400,
            )
        if providers:
            return self._access(next(iter(providers)))
        for name in self._providers.configured():
            found = self._providers.get(name)
            access = found.capabilities.batches if found is not None else None
            if access is not None and access.wire == wire.service:
                return access
        raise InvalidRequestError(
            "No provider with batches of this API is set up here.", code="no_batch_endpoint", status=404
        )

    def _access(self, provider: str) -> BatchAccess:
        found = self._providers.get(provider)
        access = found.capabilities.batches if found is not None else None
        if access is None:
            raise InvalidRequestError(
                f"{provider}, which holds it, is no longer set up here.", code="not_found", status=404
            )
        return access

    # Those that are there

    async def _serve_held(
        self,
        wire: _Wire,
        door: Door,
        request: WebRequest,
        account: Account,
        writer: ResponseWriter,
        report: RequestReport,
    ) -> None:
        name = _named(door)
        held = await self._find(account, door, name)
        access, path = self._access(held.provider), self._path(wire, door)
        report.asked, report.route = held.asked, held.route
        if path.endswith(("/content", "/results", ":download")):
            if (held.results and not held.charged) or path.endswith("/results"):
                await self._charge(door, held.batch or name, account, report)
            await self._stream(access, request, path, writer)
            return
        answered = await self._asked(access, request, path, request.body)
        if request.method == "DELETE":
            await self._memory.delete_object(account.name, _KIND, _key(door, name))
            await writer.whole(answered)
            return
        fields = _fields(answered.body)
        await self._hold_results(account, door, name, held, fields)
        if isinstance(fields.get("response"), dict):  # of Gemini: the results are in it
            await self._charge(door, name, account, report)
            await self._hold_results(account, door, name, structs.replace(held, charged=True), fields)
        elif ended := _results_of(name, fields):
            # What is never fetched was made all the same. A caller who cannot be charged now is charged at the next look.
            with suppress(SegueError):
                await self._charge(door, ended, account, report)
        await writer.whole(_shown(request, answered, fields))

    async def _stream(
        self, access: BatchAccess, request: WebRequest, path: str, writer: ResponseWriter
    ) -> None:
        async with access.ask(request.method, path, headers=_sent_headers(request)) as answer:
            await writer.start(200, _returned_headers(answer.headers))
            async for portion in answer.portions():
                await writer.write(portion)
        await writer.end()

    async def _listed(self, wire: _Wire, door: Door, request: WebRequest, account: Account) -> WebResponse:
        """A page of the provider's list, of which callers see their own."""
        answered = await self._asked(self._only(wire, []), request, self._path(wire, door), b"")
        fields = _fields(answered.body)
        shown = list[Any]()
        listed = next((name for name in wire.lists if name in fields), wire.lists[0])
        for one in fields.get(listed) or ():
            name = str(one.get(wire.ids, ""))
            held = await self._held(account, door, name)
            if held is not None:
                await self._hold_results(account, door, name, held, one)
                shown.append(_with_own_address(request, one if held.charged else _without_results(one)))
        return structs.replace(answered, body=msgspec.json.encode({**fields, listed: shown}))

    # What they cost

    async def _charge(self, door: Door, name: str, account: Account, report: RequestReport) -> None:
        """Once. What was fetched before is free."""
        lock = self._charging.setdefault((account.name, _key(door, name)), asyncio.Lock())
        async with lock:
            held = await self._find(account, door, name)
            if held.charged:
                return
            access = self._access(held.provider)
            plain = name.removeprefix("batches/")
            batch = WireBatch(id=name if door.dialect.name != "gemini" else f"batches/{plain}", files=(name,))
            used = list[tuple[str, Usage]]()
            async for result in access.results(held.route.partition("/")[2], batch):
                if result.outcome == "succeeded":
                    used.append(_usage(door, held, result.body))
            async with costs.charged_results(self._accounts, account, report, used):
                await self._hold(account, door, name, structs.replace(held, charged=True))

    async def _hold_results(
        self, account: Account, door: Door, batch: str, held: _Held, fields: dict[str, Any]
    ) -> None:
        """Files that the provider wrote for a batch belong to whoever made it. Gemini names one in the batch alone, which is what
        is charged there."""
        named = {fields.get(field): "" for field in _OUTPUT_FILES}
        named[_of(_of(_of(fields, "metadata"), "output"), "responsesFile")] = batch
        for name, charged_as in named.items():
            if not isinstance(name, str):
                continue
            paid = held.charged and bool(charged_as)
            known = await self._held(account, door, name)
            if known is None or (paid and not known.charged):
                made = structs.replace(held, results=True, batch=charged_as, charged=paid)
                await self._hold(account, door, name, made)
                await self._owners.put(account.name, name)

    # Whose they are

    async def _held(self, account: Account, door: Door, name: str) -> _Held | None:
        data = await self._memory.get_object(account.name, _KIND, _key(door, name))
        return None if data is None else msgspec.json.decode(data, type=_Held)

    async def _find(self, account: Account, door: Door, name: str) -> _Held:
        held = await self._held(account, door, name)
        if held is None:
            raise InvalidRequestError(
                f"There is no batch or file '{name}'.",
                code="not_found",
                status=404,
                hint="The gateway knows those that were made through it, for as long as gateway.memory.days.",
            )
        return held

    async def _hold(self, account: Account, door: Door, name: str, held: _Held) -> None:
        if name:
            await self._memory.put_object(account.name, _KIND, _key(door, name), msgspec.json.encode(held))

    # The way there and back

    def _path(self, wire: _Wire, door: Door, *, model: str = "") -> str:
        pattern = door.path.pattern if door.path is not None else ""
        path = _VERSION.sub("", pattern, count=1) if wire.versioned else pattern
        return path.replace("{id}", door.params.get("id", "")).replace("{model}", model)

    async def _asked(self, access: BatchAccess, request: WebRequest, path: str, body: bytes) -> WebResponse:
        query = urlencode({name: value for name, value in request.query.items() if name != "key"})
        target = f"{path}?{query}" if query else path
        async with access.ask(request.method, target, body, headers=_sent_headers(request)) as answer:
            received = await answer.read()
            return WebResponse(status=answer.status, headers=_returned_headers(answer.headers), body=received)


def _named(door: Door) -> str:
    """What a path is about, as answers name it: of Gemini with its collection, since a batch and a file may have one id."""
    is_file = door.dialect.name == "gemini" and door.path is not None and "/files/" in door.path.pattern
    return f"files/{door.params['id']}" if is_file else door.params["id"]


def _number(value: Any) -> int:
    """Also one that is written as a text."""
    return (
        int(value) if isinstance(value, int | str) and str(value).isdecimal() and len(str(value)) < 16 else 0
    )


def _of(fields: Any, *names: str) -> Any:
    """The value of a field that is written in one of two ways."""
    return (
        next((fields[name] for name in names if name in fields), None) if isinstance(fields, dict) else None
    )


def _without_results(batch: dict[str, Any]) -> dict[str, Any]:
    """A batch in a list. Gemini's have their results in them, which are paid for when the batch itself is asked for."""
    about = batch.get("metadata")
    if not isinstance(batch.get("response"), dict) or not isinstance(about, dict):
        return batch
    kept = {name: value for name, value in about.items() if name != "output"}
    return {name: value for name, value in batch.items() if name != "response"} | {"metadata": kept}


def _results_of(batch: str, fields: dict[str, Any]) -> str:
    """Under which id the results of a batch are charged that has ended: its own, or that of its file; empty if it runs."""
    if fields.get("processing_status") == "ended":
        return batch
    named = fields.get("output_file_id") or fields.get("output_file")
    return named if isinstance(named, str) else ""


def _shown(request: WebRequest, answered: WebResponse, fields: dict[str, Any]) -> WebResponse:
    changed = _with_own_address(request, fields)
    return answered if changed is fields else structs.replace(answered, body=msgspec.json.encode(changed))


def _with_own_address(request: WebRequest, fields: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's clients fetch results at the address that the batch names: it is one of ours."""
    if not isinstance(fields.get("results_url"), str):
        return fields
    base = f"{own_address(request)}{request.path.partition('/v1/')[0]}"
    return {**fields, "results_url": f"{base}/v1/messages/batches/{fields.get('id', '')}/results"}


def _key(door: Door, name: str) -> str:
    return f"{door.dialect.name} {name.removeprefix('batches/')}"


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequestError(f"The body is not JSON: {error}.", code="not_json", status=400) from error
    return fields if isinstance(fields, dict) else {}


def _sent_headers(request: WebRequest) -> dict[str, str]:
    kept = ("content-type", "accept", "anthropic-beta", "anthropic-user-profile-id", "openai-beta")
    return {name: request.headers[name] for name in kept if name in request.headers}


def _returned_headers(headers: Any) -> dict[str, str]:
    return {"content-type": headers.get("content-type", JSON_TYPE)}


@final
class _Read(Struct, frozen=True):
    """The requests of a batch, or of a file for one."""

    body: bytes
    """With the providers' own names of models."""
    routes: list[Route]
    """Where the requests go."""
    files: dict[str, Reference]
    """What they refer to, by its name."""


def _read_requests(door: Door, request: WebRequest, meant: Callable[[str], Route]) -> _Read:
    routes, files = list[Route](), dict[str, Reference]()

    def rename(fields: Any) -> None:
        if not isinstance(fields, dict):
            return
        for one in _references(door, fields):
            _require_history(one)
            if one.stands_for == "file":
                files.setdefault(one.name, one)
        if isinstance(fields.get("model"), str):
            routes.append(meant(fields["model"]))
            fields["model"] = routes[-1].model

    if "model" in door.params:
        routes.append(meant(door.params["model"]))
        for fields in _requests_of_gemini(request.body):
            files |= {one.name: one for one in _references(door, fields) if one.stands_for == "file"}
        return _Read(request.body, routes, files)
    if request.path.endswith("/files"):
        form = form_fields(request)
        file, purpose = form.get("file"), form.get("purpose")
        if file is None or purpose is None or purpose.strip() != b"batch":
            return _Read(request.body, routes, files)
        body = with_file(request, b"\n".join(_renamed_lines(file, rename)))
        return _Read(body, routes, files)
    fields = _fields(request.body)
    rename(fields)
    for one in fields.get("requests") or ():
        rename(one.get("params") if isinstance(one, dict) else None)
        rename(one.get("body") if isinstance(one, dict) else None)
    return _Read(msgspec.json.encode(fields), routes, files)


def _requests_of_gemini(body: bytes) -> Iterator[dict[str, Any]]:
    """Those that stand in the body of a batch."""
    config = _of(_of(_fields(body), "batch"), "inputConfig", "input_config")
    given = _of(_of(config, "requests"), "requests")
    for one in given if isinstance(given, list) else ():
        if isinstance(fields := _of(one, "request"), dict):
            yield fields


def _references(door: Door, fields: dict[str, Any]) -> Iterator[Reference]:
    wires = (
        (door.dialect.name, "openai_responses")
        if door.dialect.name == "openai_chat"
        else (door.dialect.name,)
    )
    for wire in wires:
        yield from references_in(fields, DIALECTS[wire].server.references, wire)


def _require_history(one: Reference) -> None:
    """Raises for a request that is only the end of a conversation (BR-09, THR-15): its answer comes when nobody holds the rest any
    more, or to ids that the provider does not know."""
    if one.stands_for == "history" and one.path in _HISTORIES:
        raise InvalidRequestError(
            f"A request in a batch holds its whole conversation: `{one.path}` is not allowed.",
            code="unsupported_value",
            path=one.path,
            status=400,
            hint="Send all messages.",
        )


def _renamed_lines(content: bytes, rename: Callable[[Any], None]) -> Iterator[bytes]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            yield line
            continue
        try:
            fields = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            # Whoever reads it less strictly than we do might find a model there that the caller may not use.
            raise InvalidRequestError(
                f"Line {number} of the file is not a JSON object.",
                code="bad_lines",
                path=f"line {number}",
                status=400,
            )
        rename(fields.get("body"))
        yield msgspec.json.encode(fields)


def _usage(door: Door, held: _Held, body: bytes) -> tuple[str, Usage]:
    """What a reply of a batch used, and of whom."""
    fields = msgspec.json.decode(body)
    dialect = DIALECTS["openai_responses"] if fields.get("object") == "response" else door.dialect
    try:
        usage = usage_in(dialect.decode_reply(body))
    except SegueError:
        usage = usage_in([])
    model = fields.get("model") or fields.get("modelVersion") or ""
    return held.route or f"{held.provider}/{model}", usage
