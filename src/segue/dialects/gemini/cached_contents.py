"""Cached contents on Gemini's wire: system, tools and contents that a server holds, and requests that build on them (CCH-01 …)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.wire import field
from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "cachedContents/"
USUAL_LIFE: Final = 3600.0
"""Seconds (CCH-02)."""
_SHARED: Final = ("systemInstruction", "tools", "toolConfig")
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?s")
_CONFLICT: Final = (
    "CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config."
    " Proposed fix: move those values to CachedContent from GenerateContent request."
)


def name_in(fields: Mapping[str, Any]) -> str:
    """The cached content that a request builds on; empty if there is none."""
    name = field(fields, "cachedContent")
    return name if isinstance(name, str) else ""


def model_in(fields: Mapping[str, Any]) -> str:
    """The model that cached content is for, as its client names it."""
    model = fields.get("model")
    if not isinstance(model, str) or not model.removeprefix("models/"):
        raise _refused("* CreateCachedContentRequest.model: model is required", "model")
    return model.removeprefix("models/")


def content_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is cached: what a request would hold in its place."""
    given = {name: field(fields, name) for name in ("contents", *_SHARED)}
    content = {name: value for name, value in given.items() if value not in (None, [], {})}
    if not content:
        raise _refused("CachedContent has no content.", "contents")
    return content


def inlined(fields: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """A request with the content in place of its name."""
    if any(field(fields, name) is not None for name in _SHARED):
        raise _refused(_CONFLICT)
    own = {name: value for name, value in fields.items() if name not in ("cachedContent", "cached_content")}
    contents = [*_listed(content.get("contents")), *_listed(own.get("contents"))]
    return {**own, **content, "contents": contents}


def _listed(contents: Any) -> list[Any]:
    """Contents may come as one, without a list; a text is what Google takes it for: one of the user."""
    if contents is None:
        return []
    return contents if isinstance(contents, list) else [contents]


def expiry_in(fields: Mapping[str, Any], now: float) -> float:
    """When it ends, in seconds since 1970, by how long it lives or by the moment."""
    ttl, moment = fields.get("ttl"), field(fields, "expireTime")
    if ttl is not None and moment is not None:
        raise _refused("ttl and expireTime cannot both be set.", "ttl")
    if ttl is not None:
        if not isinstance(ttl, str) or not _SECONDS.fullmatch(ttl):
            raise _refused(f"Invalid value at 'cached_content.ttl' (Duration), {ttl!r:.60}", "ttl")
        ends = now + float(ttl[:-1])
    elif moment is not None:
        try:
            ends = datetime.fromisoformat(moment).timestamp()
        except (TypeError, ValueError, OverflowError):
            raise _refused(
                f"Invalid value at 'cached_content.expire_time' (Timestamp), {moment!r:.60}", "expireTime"
            ) from None
    else:
        ends = now + USUAL_LIFE
    if ends <= now:
        raise _refused("CachedContent expiration must be in the future.", "ttl" if ttl else "expireTime")
    return ends


def written_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def not_found() -> InvalidRequestError:
    """What is not held, and what is somebody else's: the words are the same (CCH-02)."""
    error = InvalidRequestError(
        "CachedContent not found (or permission denied)", code="permission_denied", status=403
    )
    error.wire = NAME
    return error


def _refused(message: str, path: str = "") -> InvalidRequestError:
    error = InvalidRequestError(message, code="invalid_argument", path=path, status=400)
    error.wire = NAME
    return error
