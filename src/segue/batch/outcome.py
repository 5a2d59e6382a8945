"""What became of a request of a batch: how it is kept, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Reasoning, Text
from segue.conversation.document import decode_document, encode_document
from segue.conversation.events import FinishReason
from segue.conversation.message import Conversation, Message, mint_missing
from segue.conversation.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from segue.batch.state_file import StoredRequest
    from segue.conversation.events import Reply
    from segue.errors import SegueError

ResultStatus: TypeAlias = Literal["succeeded", "failed", "expired", "cancelled", "open"]
"""`open`: it has no result yet."""


@final
class ResultError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request failed."""

    code: str
    message: str
    remedy: str = ""
    status: int | None = None
    request_id: str = ""


@final
class ResultCall(Struct, frozen=True, omit_defaults=True):
    """A tool call in a reply. Nobody runs it: a batch is one request and one reply each."""

    id: str
    name: str
    arguments: Any


@final
class BatchResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one request: one line of JSON."""

    id: str
    """The id in its line of the file; else the number of the line."""
    line: int
    status: ResultStatus
    text: str = ""
    reasoning: str = ""
    calls: tuple[ResultCall, ...] = ()
    output: Any = None
    """With a schema: the answer as a value."""
    finish: FinishReason | None = None
    model: str = ""
    usage: Usage = NO_USAGE
    cost: float | None = None
    """Dollars. None: a price is unknown, or nothing was used."""
    attempts: int = 0
    """How often it was handed over."""
    repairs: tuple[str, ...] = ()
    """What was changed to make the request valid for its model."""
    error: ResultError | None = None
    session: str = ""
    """The session that it was saved as."""


@final
class _Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An outcome in the file of the batch."""

    document: msgspec.Raw = msgspec.Raw(b"null")
    """The reply, as a conversation of one message."""
    finish: FinishReason | None = None
    model: str = ""
    usage: Usage = NO_USAGE
    cost: float | None = None
    error: ResultError | None = None


def keep_reply(reply: Reply, cost: float | None, minted: int) -> bytes:
    """`minted`: how many ids of calls the conversation has."""
    message, _ = mint_missing(reply.message, minted)
    return msgspec.json.encode(
        _Kept(
            document=msgspec.Raw(encode_document(Conversation((message,)))),
            finish=reply.finish,
            model=reply.model,
            usage=reply.usage,
            cost=cost,
            error=None if reply.error is None else error_info(reply.error),
        )
    )


def keep_error(error: SegueError) -> bytes:
    return msgspec.json.encode(_Kept(error=error_info(error)))


def error_info(error: SegueError) -> ResultError:
    return ResultError(
        code=error.code,
        message=error.message,
        remedy=error.remedy,
        status=getattr(error, "status", None),
        request_id=getattr(error, "request_id", "") or "",
    )


def _kept(stored: StoredRequest) -> _Kept:
    return msgspec.json.decode(stored.result, type=_Kept) if stored.result else _Kept()


def message_of(stored: StoredRequest) -> Message | None:
    """The reply; None if there is none."""
    document = bytes(_kept(stored).document)
    return None if document == b"null" else decode_document(document)[0].messages[0]


def result_of(stored: StoredRequest, *, structured: bool) -> BatchResult:
    """`structured`: whether the answer follows a schema."""
    kept, message = _kept(stored), message_of(stored)
    ended = stored.state not in ("waiting", "asked")
    blocks = message.blocks if message is not None else ()
    text = "".join(block.text for block in blocks if type(block) is Text)
    return BatchResult(
        id=stored.name,
        line=stored.line,
        status=stored.state if ended else "open",  # type: ignore[arg-type]  # of those with an outcome
        text=text,
        reasoning="".join(block.text for block in blocks if type(block) is Reasoning),
        calls=tuple(
            ResultCall(call.id, call.name, call.arguments) for call in (message.calls if message else ())
        ),
        output=_parsed(text) if structured and stored.state == "succeeded" else None,
        finish=kept.finish,
        model=kept.model,
        usage=kept.usage,
        cost=kept.cost,
        attempts=stored.attempts,
        repairs=stored.how_to_read.repairs if stored.reading else (),
        error=kept.error,
        session=stored.session,
    )


def entries_of(stored: StoredRequest) -> tuple[FinishReason, Usage, float | None]:
    """What a journal has of a reply beside its message."""
    kept = _kept(stored)
    return kept.finish or "stop", kept.usage, kept.cost


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
