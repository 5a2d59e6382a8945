"""The tokens of a request before it is sent: counted by the provider, else estimated offline, and compared with the
model's limit.

An estimate counts letters, digits, marks and scripts, and weighs them; the weights are in token_estimates.toml with
the error they were measured to have. What a provider reports corrects later estimates of the same model. Nothing of
it touches the network.
"""

from __future__ import annotations

import asyncio
import math
import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Block, Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import json_safe
from segue.conversation.message import Conversation, Message
from segue.conversation.tools import ToolSpec
from segue.errors import ContextLengthError, SegueError
from segue.providers.models.cards import card_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from segue.providers.adapter import ChatRequest, ProviderAdapter


@final
class TokenWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens per piece of text. Characters are classified by the first byte of their UTF-8."""

    letters: float
    humps: float
    digits: float
    numbers: float
    marks: float
    lines: float
    blanks: float
    accents: float
    symbols: float
    cyrillic: float
    semitic: float
    indic: float
    han: float
    hangul: float
    emoji: float


@final
class Family(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Models that cut text into tokens alike."""

    name: str
    match: tuple[str, ...]
    weights: TokenWeights | None = None
    like: str = ""
    scale: float = 1.0
    error: float
    """Share by which an estimate may be off."""
    image: int = 1000
    """Tokens of one image, whose size we do not look at: about what a megapixel costs."""


PER_MESSAGE: Final = 4
PER_CALL: Final = 8
PER_TOOL: Final = 12
_BYTES_PER_TOKEN: Final = {"document": 40, "audio": 500, "image": 0}
"""A page of a document has some 60 KB and 1,500 tokens, a second of sound 16 KB and 32; both vary widely."""

_SMALLEST_RATIO, _LARGEST_RATIO = 0.25, 4.0


def _classes() -> bytes:
    """For each byte a letter for the class of character that begins there."""
    table = bytearray(b"x" * 256)
    for kind, ranges in {
        "p": [(0x00, 0x80)],
        "l": [(0x61, 0x7B)],
        "u": [(0x41, 0x5B)],
        "d": [(0x30, 0x3A)],
        "s": [(0x20, 0x21)],
        "n": [(0x09, 0x0B), (0x0D, 0x0E)],
        "a": [(0xC3, 0xCE)],
        "q": [(0xC2, 0xC3), (0xE2, 0xE3)],
        "c": [(0xCE, 0xD4)],
        "r": [(0xD4, 0xE0)],
        "i": [(0xE0, 0xE2)],
        "k": [(0xE3, 0xEA), (0xEE, 0xF0)],
        "h": [(0xEA, 0xEE)],
        "m": [(0xF0, 0xF8)],
    }.items():
        for start, end in ranges:
            table[start:end] = kind.encode() * (end - start)
    return bytes(table)


_CLASSES: Final = _classes()
_DIGITS: Final = bytes(ord("d") if 0x30 <= byte <= 0x39 else ord("o") for byte in range(256))


_SLICE: Final = 1 << 20


def text_tokens(text: str | bytes, family: Family) -> float:
    """The tokens of a text, unrounded. Its cost is a few passes over the bytes."""
    if len(text) > _SLICE:  # whole, each pass over it would be a copy of it
        return sum(text_tokens(text[at : at + _SLICE], family) for at in range(0, len(text), _SLICE))
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if not data:
        return 0.0
    weights = weights_of(family)
    kinds = data.translate(_CLASSES)
    count = kinds.count
    tokens = (
        weights.letters * (count(b"l") + count(b"u"))
        + weights.humps * count(b"lu")
        + weights.marks * count(b"p")
        + weights.lines * count(b"n")
        + weights.blanks * count(b"ss")
    )
    if digits := count(b"d"):
        numbers = data.translate(_DIGITS)
        tokens += weights.digits * digits
        tokens += weights.numbers * (numbers.count(b"od") + numbers.startswith(b"d"))
    if not data.isascii():
        tokens += (
            weights.accents * count(b"a")
            + weights.symbols * count(b"q")
            + weights.cyrillic * count(b"c")
            + weights.semitic * count(b"r")
            + weights.indic * count(b"i")
            + weights.han * count(b"k")
            + weights.hangul * count(b"h")
            + weights.emoji * count(b"m")
        )
    return tokens * family.scale


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    table = tomllib.loads(files(__package__).joinpath("token_estimates.toml").read_text("utf-8"))
    return msgspec.convert(table["family"], tuple[Family, ...])


@lru_cache(maxsize=4096)
def family_of(model: str) -> Family:
    """The family of a model by its name; the last one fits all."""
    name = model.rpartition("/")[2].lower()
    return next(
        family for family in families() if any(fnmatchcase(name, pattern) for pattern in family.match)
    )


@lru_cache(maxsize=64)
def weights_of(family: Family) -> TokenWeights:
    """A family's own weights, or those that it borrows."""
    if family.weights is not None:
        return family.weights
    return weights_of(next(other for other in families() if other.name == family.like))


def _message_tokens(message: Message, family: Family) -> float:
    return PER_MESSAGE + sum(_block_tokens(block, family) for block in message.blocks)


def _block_tokens(block: Block, family: Family) -> float:
    tokens = sum(text_tokens(text, family) for text in texts_of(block))
    if type(block) is ToolCall:
        return PER_CALL + tokens
    if type(block) is ToolResult:
        return PER_CALL + tokens + _media_tokens(block.media, family)
    return _media_tokens((block,), family) if type(block) is Media else tokens


def texts_of(block: Block) -> tuple[str | bytes, ...]:
    """All that a model reads of a block."""
    match block:
        case Text(text) | Reasoning(text):
            return (text,)
        case Code(code):
            return (code,)
        case ToolCall():
            return block.name, block.raw or json_text(block.arguments)
        case ToolResult():
            content = block.error if block.error is not None else block.output
            return (content if isinstance(content, str) else json_text(content),)
        case Media():
            return ()
        case _:
            assert_never(block)


def _media_tokens(media: Iterable[Media], family: Family) -> float:
    """By kind, and by size if it is known."""
    tokens = 0.0
    for one in media:
        per = _BYTES_PER_TOKEN[one.kind]
        size = len(one.data) * 3 // 4
        tokens += max(family.image, size / per) if per and size else family.image
    return tokens


def _tools_tokens(tools: Iterable[ToolSpec], family: Family) -> float:
    tokens = 0.0
    for tool in tools:
        words = text_tokens(tool.name, family) + text_tokens(tool.description, family)
        tokens += PER_TOOL + words + text_tokens(json_text(tool.parameters or {}), family)
    return tokens


def json_text(value: Any) -> bytes:
    """A value as JSON text; empty for None."""
    if value is None:
        return b""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(json_safe(value))


def estimate_request(request: ChatRequest, family: Family) -> int:
    """The input tokens of a request, computed from scratch."""
    return _rounded(_Sums(family).of(request))


PART_NAMES: Final = {
    Text: "answers",
    Code: "answers",
    Reasoning: "reasoning",
    ToolCall: "tool calls",
    ToolResult: "tool results",
    Media: "images and files",
}


def estimate_parts(
    conversation: Conversation, tools: Iterable[ToolSpec], model: str
) -> dict[str, tuple[int, int]]:
    """What fills a context window: for each kind of content how many pieces there are, and their tokens."""
    family = family_of(model)
    pieces: dict[str, list[float]] = {}
    if conversation.system:
        pieces["system prompt"] = [text_tokens(conversation.system, family)]
    if offered := [_tools_tokens([tool], family) for tool in tools]:
        pieces["tools"] = offered
    for message in conversation.messages:
        for block in message.blocks:
            is_yours = message.speaker == "user" and type(block) is not Media
            name = "your messages" if is_yours else PART_NAMES[type(block)]
            pieces.setdefault(name, []).append(_block_tokens(block, family))
    return {name: (len(counts), _rounded(sum(counts))) for name, counts in pieces.items()}


def _rounded(tokens: float) -> int:
    return max(1, math.ceil(tokens))


@final
class _Sums(Struct):
    """The tokens of a request; what it has in common with the previous one is not counted again."""

    family: Family
    messages: tuple[Message, ...] = ()
    tokens: float = 0.0
    tools: tuple[ToolSpec, ...] = ()
    tools_tokens: float = 0.0

    def of(self, request: ChatRequest) -> float:
        messages = request.conversation.messages
        done = len(self.messages)
        if messages[:done] != self.messages:  # the same values mostly: then nothing is looked into
            done, self.tokens = 0, 0.0
        for message in messages[done:]:
            self.tokens += _message_tokens(message, self.family)
        self.messages = messages
        if request.tools is not self.tools:
            self.tools, self.tools_tokens = request.tools, _tools_tokens(request.tools, self.family)
        return self.tokens + self.tools_tokens + text_tokens(request.conversation.system, self.family)


@final
class Estimator(Struct):
    """The tokens of the requests of one session; each costs what is new in it."""

    _sums: dict[str, _Sums] = {}
    _ratios: dict[str, float] = {}

    def estimate(self, request: ChatRequest) -> int:
        """The input tokens of a request, corrected by what the provider reported before."""
        return _rounded(self._tokens(request) * self._ratios.get(request.model, 1.0))

    def correct(self, request: ChatRequest, reported: int) -> None:
        """The provider counted so many input tokens in this request, the last one. It alone decides: so every process that
        continues a session estimates alike."""
        estimated = self._tokens(request)
        if estimated and reported > 0:
            self._ratios[request.model] = min(max(reported / estimated, _SMALLEST_RATIO), _LARGEST_RATIO)

    def forget(self, model: str) -> None:
        """Nothing is known of what its provider counts."""
        self._ratios.pop(model, None)

    def _tokens(self, request: ChatRequest) -> float:
        family = family_of(request.model)
        return self._sums.setdefault(family.name, _Sums(family)).of(request)


UNKNOWN_LIMIT: Final = 4096
WARNING_THRESHOLD: Final = 0.9
ASKING_SECONDS: Final = 5.0
"""How long a provider may take to describe a model: a limit is worth less than an answer."""
_CHARACTERS_PER_TOKEN: Final = 4

LimitStatus: TypeAlias = Literal["within", "warning", "over"]


@final
class LimitCheck(Struct, frozen=True):
    """How many tokens a request has, how many the model takes, and what follows."""

    model: str
    tokens: int
    limit: int
    threshold: float = WARNING_THRESHOLD

    @property
    def status(self) -> LimitStatus:
        if self.tokens > self.limit:
            return "over"
        return "warning" if self.tokens >= self.limit * self.threshold else "within"

    @property
    def within_limit(self) -> bool:
        return self.status != "over"

    @property
    def is_warning(self) -> bool:
        return self.status == "warning"


def fallback_tokens(characters: int) -> int:
    """Four characters are a token, rounded up."""
    return -(-characters // _CHARACTERS_PER_TOKEN)


def characters_of(request: ChatRequest) -> int:
    """All characters of a request: system prompt, texts, reasoning, calls, results and descriptions of tools."""
    content = len(request.conversation.system)
    content += sum(
        len(text)
        for message in request.conversation.messages
        for block in message.blocks
        for text in texts_of(block)
    )
    return content + sum(
        len(tool.name) + len(tool.description) + len(json_text(tool.parameters)) for tool in request.tools
    )


@lru_cache(maxsize=4096)
def _context_of(model: str) -> int | None:
    """The context window by the cards, for any provider."""
    name = model.rpartition("/")[2].lower()
    return next((card.context for card in card_table().cards if fnmatchcase(name, card.match)), None)


@final
class TokenCounter:
    """Counts requests for one provider and checks them against the limits of its models."""

    def __init__(
        self,
        provider: ProviderAdapter,
        *,
        limits: Mapping[str, int] | None = None,
        default_limit: int = UNKNOWN_LIMIT,
        warning_threshold: float = WARNING_THRESHOLD,
    ) -> None:
        """`limits`: tokens by model, which win over all else; `default_limit` is for unknown models."""
        self._provider = provider
        self._limits = dict(limits or {})
        self._default_limit = default_limit
        self._threshold = warning_threshold
        self._reported: dict[str, int | None] = {}

    async def estimate_tokens(self, request: ChatRequest) -> int:
        """The input tokens of a request, at least one. Never fails: a count that cannot be had is estimated."""
        count = self._provider.capabilities.count_tokens
        if count is not None:
            try:
                return max(1, await count(request))
            except SegueError:
                pass  # the request itself will fail and report why
        return max(1, fallback_tokens(characters_of(request)))

    def check_limit(self, model: str, tokens: int) -> LimitCheck:
        """Compare a count with the known limit of the model; sends no request."""
        return LimitCheck(model, tokens, self._known_limit(model) or self._default_limit, self._threshold)

    async def limit_of(self, model: str) -> int:
        """The tokens a model takes: as configured, else as its provider reports, else by its card, else the default."""
        if model not in self._limits and model not in self._reported:
            self._reported[model] = await self._ask(model)
        return self._known_limit(model) or self._default_limit

    async def admit(self, request: ChatRequest) -> LimitCheck:
        """Count a request before it is sent; one that is too long is refused."""
        await self.limit_of(request.model)
        check = self.check_limit(request.model, await self.estimate_tokens(request))
        if check.status == "over":
            raise ContextLengthError(
                f"Request exceeds token limit: {check.tokens} > {check.limit} for model {check.model}"
            )
        return check

    def _known_limit(self, model: str) -> int | None:
        card = self._provider.card(model)
        on_a_card = _context_of(model) if card is None else card.context
        return self._limits.get(model) or self._reported.get(model) or on_a_card

    async def _ask(self, model: str) -> int | None:
        """What the provider reports, if it answers in time."""
        show, list_models = self._provider.capabilities.show_model, self._provider.capabilities.list_models
        try:
            async with asyncio.timeout(ASKING_SECONDS):
                if show is not None:
                    return (await show(model)).context
                if list_models is not None:
                    listed = await list_models()
                    return next((info.context for info in listed if info.id == model), None)
        except (SegueError, TimeoutError):
            pass
        return None
