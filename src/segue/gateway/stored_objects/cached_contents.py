"""Cached contents of Gemini's wire, for any model: kept for their caller, and put in where a request builds on them.

Where Google itself answers, it holds them too, and a request that stays there goes to it as it came: what Google has cached is
cheaper. Everybody else gets the content itself. Nobody can read it back.
"""

from __future__ import annotations

from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, Final, final
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from segue.conversation.events import Finished, UsageReported
from segue.conversation.usage import Usage
from segue.dialects.gemini import cached_contents as wire
from segue.errors import InvalidRequestError, QuotaError, SegueError
from segue.exchange.handovers import Handover
from segue.gateway.conversations.turns import read_fields
from segue.gateway.doors.paths import Door
from segue.gateway.exchanges.usage_estimates import BYTES_PER_TOKEN, mark_estimate
from segue.gateway.requests.byte_budget import hold_for_request
from segue.gateway.requests.web import JSON_TYPE, WebResponse
from segue.gateway.telemetry.report import AttemptReport
from segue.providers.token_counts import estimate_request, family_of
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.gateway.conversations.reader import TurnReader
    from segue.gateway.exchanges.members import Members
    from segue.gateway.memory.memory import Memory
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.capabilities import AskCachedContents
    from segue.providers.registry import KnownProviders

_KIND: Final = "cached content"
_LIST: Final = "list of cached contents"
_OWNER: Final = "owner of a cached content"
_LISTS: Final = 16
"""Lists of names that a caller has: two gateways that add a name at the same moment hardly ever write the same one."""
_MOST: Final = 64
"""Names in one of them."""
_PAGE: Final = 1000
_NO_SUCH_PATH: Final = (404, 405, 501)
_GONE: Final = (403, 404)


@final
class CachedContent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a caller has cached. It is kept as JSON."""

    name: str
    asked: str
    """The model's name that the client asked for."""
    content: dict[str, Any]
    created: float
    updated: float
    expires: float
    title: str = ""
    tokens: int = 0
    provider: str = ""
    """The provider that holds it too, and for which of its models; empty if none does."""
    model: str = ""

    def shown(self) -> dict[str, Any]:
        """What its client may see: everything but the content (CCH-01)."""
        fields: dict[str, Any] = {
            "name": self.name,
            "model": f"models/{self.asked}",
            "createTime": wire.written_time(self.created),
            "updateTime": wire.written_time(self.updated),
            "expireTime": wire.written_time(self.expires),
            "usageMetadata": {"totalTokenCount": self.tokens},
        }
        return {**fields, "displayName": self.title} if self.title else fields


_DECODER: Final = msgspec.json.Decoder(CachedContent)
_NAMES: Final = msgspec.json.Decoder(dict[str, float])


@final
class HeldContents:
    """The cached contents of all callers, in the memory."""

    def __init__(self, memory: Memory, days: float) -> None:
        self._memory = memory
        self._life = days * 86400

    def latest_end(self, now: float) -> float:
        """Nothing is promised for longer than the memory keeps it."""
        return now + self._life

    async def find(self, caller: str, name: str) -> CachedContent | None:
        """None if it was never seen, or is over. Raises if it is another caller's: at Google they may have one account."""
        data = await self._memory.get_object(caller, _KIND, name)
        if data is None:
            owner = await self._memory.get_object("", _OWNER, name)
            if owner is not None and owner.decode() != caller:
                raise wire.not_found()
            return None
        hold_for_request(data)
        found = _DECODER.decode(data)
        return found if found.expires > time() else None

    async def put(self, caller: str, cached: CachedContent) -> None:
        place, now = _place(cached.name), time()
        listed = {name: end for name, end in (await self._listed(caller, place)).items() if end > now}
        if len(listed) >= _MOST and cached.name not in listed:
            raise QuotaError(
                "There are too many cached contents already.",
                code="too_many_cached_contents",
                hint="Delete some, or let them expire sooner.",
            )
        await self._memory.put_object("", _OWNER, cached.name, caller.encode())
        await self._memory.put_objects(
            caller,
            {
                (_KIND, cached.name): msgspec.json.encode(cached),
                (_LIST, place): msgspec.json.encode({**listed, cached.name: cached.expires}),
            },
        )

    async def delete(self, caller: str, name: str) -> None:
        place = _place(name)
        listed = await self._listed(caller, place)
        if listed.pop(name, None) is not None:
            await self._memory.put_object(caller, _LIST, place, msgspec.json.encode(listed))
        await self._memory.delete_object(caller, _KIND, name)

    async def all(self, caller: str) -> list[CachedContent]:
        now = time()
        names = [
            name
            for place in range(_LISTS)
            for name, end in (await self._listed(caller, str(place))).items()
            if end > now
        ]
        found = [await self.find(caller, name) for name in names]
        return sorted((one for one in found if one is not None), key=lambda one: one.created)

    async def _listed(self, caller: str, place: str) -> dict[str, float]:
        data = await self._memory.get_object(caller, _LIST, place)
        return {} if data is None else _NAMES.decode(data)


def _place(name: str) -> str:
    return str(crc32(name.encode()) % _LISTS)


@final
class CachedContentService:
    """The paths of cached contents."""

    def __init__(
        self,
        held: HeldContents,
        names: ModelNames,
        members: Members,
        providers: KnownProviders,
        reader: TurnReader,
    ) -> None:
        self._held = held
        self._names = names
        self._members = members
        self._providers = providers
        self._reader = reader

    async def answer(
        self, door: Door, request: WebRequest, caller: str, report: RequestReport
    ) -> WebResponse:
        name = wire.PREFIX + door.params["id"] if "id" in door.params else ""
        if door.operation == "cache_content":
            return await self._create(door, request, caller, report)
        if not name:
            return _json(_page([one.shown() for one in await self._held.all(caller)], request.query))
        found = await self._held.find(caller, name)
        if found is None:
            raise wire.not_found()
        if request.method == "PATCH":
            return await self._change(found, request, caller)
        if request.method == "DELETE":
            await self._ask_holder(found, "DELETE")
            await self._held.delete(caller, name)
            return _json({})
        return _json(found.shown())

    async def _create(
        self, door: Door, request: WebRequest, caller: str, report: RequestReport
    ) -> WebResponse:
        fields, now = read_fields(request.body), time()
        asked, content = wire.model_in(fields), wire.content_in(fields)
        expires = min(wire.expiry_in(fields, now), self._held.latest_end(now))
        title = fields.get("displayName", fields.get("display_name"))
        cached = CachedContent(
            name=wire.PREFIX + token_hex(16),
            asked=asked,
            content=content,
            created=now,
            updated=now,
            expires=expires,
            title=title if isinstance(title, str) else "",
        )
        headers: dict[str, str] = {}
        tokens, counted = await self._tokens(door, request, cached, caller, report)
        cached = structs.replace(cached, tokens=tokens)
        if (there := await self._create_there(cached, fields, report)) is not None:
            cached = there
        elif not counted:
            mark_estimate(headers)
        await self._held.put(caller, cached)
        return _json(cached.shown(), headers)

    async def _tokens(
        self, door: Door, request: WebRequest, cached: CachedContent, caller: str, report: RequestReport
    ) -> tuple[int, bool]:
        """How many tokens the content has for its model, and whether its provider has counted them. Raises if it cannot be read."""
        at = Door(dialect=door.dialect, operation="count_tokens", params={"model": cached.asked})
        turn = await self._reader.read(at, request, {"contents": [], **cached.content}, caller)
        route = self._names.router(cached.asked).routes[0]
        report.route = route.name
        provider = provider_of(route, self._providers)
        chat = self._members.request(turn, route)
        self._members.require_whole(turn, provider, chat)
        count = provider.capabilities.count_tokens
        if count is not None and provider.capabilities.cached_contents is None:
            try:
                return await count(chat), True
            except (
                SegueError
            ):  # what a provider cannot count by itself may still be the beginning of a request
                pass
        return estimate_request(chat, family_of(route.model)), False

    async def _create_there(
        self, cached: CachedContent, fields: Mapping[str, Any], report: RequestReport
    ) -> CachedContent | None:
        """The same at the provider of the model, if that holds such content. What it refuses is refused."""
        route = self._names.router(cached.asked).routes[0]
        ask = self._asking(route.provider)
        forward = provider_of(route, self._providers).capabilities.forward
        if ask is None or forward is None or not self._members.uses_state:
            return None
        model = forward.target(route.model).model
        tried = AttemptReport(route=route.name, began=time())
        report.tries.append(tried)
        size = len(msgspec.json.encode(cached.content))
        handover = Handover(route.name, model, lambda: size // BYTES_PER_TOKEN, size=size)
        tried.handovers.append(handover)
        try:
            made = await ask("POST", "", {**fields, "model": f"models/{model}"})
        except InvalidRequestError as error:
            handover.fail(error)
            if error.status in _NO_SUCH_PATH:
                return None
            raise
        except SegueError as error:
            handover.fail(error)
            raise
        finally:
            tried.seconds = time() - tried.began
        name, usage = made.get("name"), made.get("usageMetadata")
        tokens = usage.get("totalTokenCount") if isinstance(usage, dict) else None
        tokens = tokens if isinstance(tokens, int) else cached.tokens
        handover.note([UsageReported(Usage(tokens, 0)), Finished("stop")])
        if not isinstance(name, str) or not name.startswith(wire.PREFIX):
            return None
        expires = _moment(made.get("expireTime"), cached.expires)
        return structs.replace(
            cached,
            name=name,
            tokens=tokens,
            provider=route.provider,
            model=model,
            expires=min(expires, self._held.latest_end(cached.created)),
        )

    async def _change(self, found: CachedContent, request: WebRequest, caller: str) -> WebResponse:
        """Only when it ends can be changed (CCH-01)."""
        fields, now = read_fields(request.body), time()
        expires = min(wire.expiry_in(fields, now), self._held.latest_end(now))
        times: dict[str, Any] = {
            name: fields[name] for name in ("ttl", "expireTime", "expire_time") if name in fields
        }
        kept = found.provider if await self._ask_holder(found, "PATCH", times) else ""
        changed = structs.replace(found, expires=expires, updated=now, provider=kept)
        await self._held.put(caller, changed)
        return _json(changed.shown())

    async def _ask_holder(
        self, found: CachedContent, method: str, body: Mapping[str, Any] | None = None
    ) -> bool:
        """Whether the provider that holds it too still does, and has done so. What it has lost we still have."""
        ask = self._asking(found.provider)
        if ask is None:
            return False
        try:
            await ask(method, found.name.removeprefix(wire.PREFIX), body)
        except SegueError as error:
            if getattr(error, "status", None) not in _GONE:
                raise
            return False
        return True

    def _asking(self, provider: str) -> AskCachedContents | None:
        found = self._providers.get(provider) if provider else None
        return found.capabilities.cached_contents if found is not None else None


def _moment(written: Any, usual: float) -> float:
    try:
        return wire.expiry_in({"expireTime": written}, 0.0) if isinstance(written, str) else usual
    except SegueError:
        return usual


def _page(shown: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    start, size = _number(query.get("pageToken"), 0), _number(query.get("pageSize"), _PAGE) or _PAGE
    answer: dict[str, Any] = {"cachedContents": shown[start : start + size]} if shown else {}
    return {**answer, "nextPageToken": str(start + size)} if start + size < len(shown) else answer


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def _json(content: object, headers: Mapping[str, str] | None = None) -> WebResponse:
    return WebResponse(
        headers={"content-type": JSON_TYPE, **(headers or {})}, body=msgspec.json.encode(content)
    )
