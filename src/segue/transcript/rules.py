"""What a target demands of a transcript, as data.

A dialect's folder holds one `Rules` value (and variants of it); facts about a single model change fields of it. The
renderer reads these fields and knows no provider by name.
"""

from __future__ import annotations

import re
import string
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from segue.conversation.blocks import Media, MediaKind, Origin
from segue.conversation.json_safe import is_encodable

SAFE_CHARACTERS = string.ascii_letters + string.digits + "_-"

IdForm: TypeAlias = Literal["prefixed", "indexed", "alphanumeric"]


class IdGrammar(Struct, frozen=True):
    """The form of a target's call ids.

    `prefixed`: the prefix and safe characters, at most `max_length`. `indexed`: ``{prefix}{tool}:{n}`` with n counted
    from 0 over the whole transcript. `alphanumeric`: exactly `max_length` letters and digits.
    """

    form: IdForm = "prefixed"
    prefix: str = "call_"
    max_length: int = 40
    characters: str = SAFE_CHARACTERS


NINE_CHARACTERS = IdGrammar("alphanumeric", "", 9, string.ascii_letters + string.digits)
"""What Mistral's API and the chat templates of its models take."""

BRIDGE = "Understood."
"""The model's text between tool results and a user message, where one must stand there."""


class NameGrammar(Struct, frozen=True):
    """Which tool names a target accepts."""

    first: str = SAFE_CHARACTERS
    rest: str = SAFE_CHARACTERS
    max_length: int = 64


class ReasoningRules(Struct, frozen=True):
    """Which of a model's own thoughts may, or must, come back to it."""

    replay: Literal["none", "sealed", "plain"] = "none"
    """`sealed`: only with the seal the model put on them; `plain`: as text."""
    unsealed: bool = False
    """Whether a model may leave a thought without a seal: then it gets that back, too."""
    required: Literal["none", "calls", "all"] = "none"
    """On which model messages the target insists on some reasoning."""
    filler: str = ""
    """What stands there when there is none of its own."""
    bound: bool = False
    """The seal holds only under the exact prefix; thoughts may then be dropped from the front only."""
    last: bool = True
    """Whether a message may end with a thought."""
    item_id: str = ""
    """The field by which the provider finds the thought that it wrote beside an item: without the thought it is not sent."""
    call_seal: str = ""
    """What stands for the missing seal on the first call of a step, where the target insists on one."""
    call_seal_field: str = ""
    """The target's field that a client keeps such a stand-in in: it came with the call, so that nothing is filled in."""


class MediaRules(Struct, frozen=True):
    """Which media types each speaker may show: exact types such as ``image/png``, or ``image/*``."""

    user: frozenset[str] = frozenset()
    tool: frozenset[str] = frozenset()
    model: frozenset[str] = frozenset()
    urls: frozenset[MediaKind] = frozenset()
    """Kinds that may be given by address instead of by content."""
    schemes: tuple[str, ...] = ("https://", "http://")
    """How an address must begin."""
    held: str = ""
    """How the address of a document begins that the provider itself holds; empty if the wire has none."""
    urls_in_results: bool = True
    """Whether a tool's result may show something by address."""
    in_errors: bool = True
    """Whether a failed result may hold media."""
    titles: bool = True
    """Whether a document can have a title."""


class Rules(Struct, frozen=True):
    """Everything the renderer must know about a target."""

    target: Origin = Origin()
    home: str = ""
    """The provider whose own wire this is: a history of which only the wire is known came from there."""
    ids: IdGrammar = IdGrammar()
    names: NameGrammar = NameGrammar()
    reasoning: ReasoningRules = ReasoningRules()
    media: MediaRules = MediaRules()
    alternates: bool = False
    """User and model must take turns, so neighbouring user messages are sent as one."""
    opens_with_user: bool = False
    ends_with_model: bool = True
    """Whether the last message may be the model's."""
    ends_with_space: bool = True
    """Whether such a message may end with white space."""
    tools: bool = True
    """Whether the target knows calls and results at all; else they are written as text."""
    argument_levels: int = 0
    """How deep arguments may be nested where they are sent as an object; 0 is no limit, for those sent as text."""
    calls_last: bool = False
    """In a model's message nothing may follow the calls."""
    calls_after_text: bool = True
    """Whether a message with calls may follow another of the model. They are sent as one in any case."""
    calls_after_calls: bool = True
    """The same of one with calls, whose results follow both."""
    calls_per_step: int = 0
    """At most this many calls in one message; 0 is no limit."""
    bridge: str = ""
    """The model's text between tool results and a user message, where the target wants one."""
    blank_text: bool = True
    """Whether empty and whitespace-only texts are accepted."""
    instructions: Literal["inline", "returned", "user"] = "user"
    """A system note in mid-conversation: sent in place, or as a user message. `returned`: in place if it came so on this wire,
    and what stands around it still allows it."""
    system: Literal["apart", "first_user"] = "apart"
    """Where the system prompt goes: its own place, or in front of the first user message."""

    def at(self, *, provider: str = "", endpoint: str = "", model: str = "") -> Rules:
        """The same rules for one address and model."""
        return structs.replace(self, target=Origin(self.target.dialect, provider, endpoint, model))


_BASE64 = (string.ascii_letters + string.digits + "+/").encode()
_DEFAULT_TYPES = {"image": "image/png", "document": "application/pdf", "audio": "audio/wav"}
_TYPES_BY_ENDING = {
    "bmp": "image/bmp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "webp": "image/webp",
}


def media_type(media: Media) -> str:
    """Its own type, else what the end of its address says, else the usual one of its kind."""
    if media.mime:
        return media.mime
    path = re.split("[?#]", media.url, maxsplit=1)[0] if media.url and not media.data else ""
    found = _TYPES_BY_ENDING.get(path.rpartition(".")[2].lower(), "") if path else ""
    return found if found and _kind_of(found) == media.kind else _DEFAULT_TYPES[media.kind]


def _kind_of(mime: str) -> MediaKind:
    """What a type is shown as, whatever the medium calls itself."""
    if mime.startswith("image/"):
        return "image"
    return "audio" if mime.startswith("audio/") else "document"


def is_base64(data: str) -> bool:
    """Whether media can be read from this. Every server refuses what it cannot."""
    if not data.isascii() or len(data) % 4:
        return False
    return not data.encode("ascii").rstrip(b"=").translate(None, _BASE64)


def accepts_media(allowed: frozenset[str], rules: MediaRules, media: Media) -> bool:
    """Whether this very image, document or sound can be shown there."""
    encodable = media.mime.isascii() and media.url.isascii() and is_encodable(media.name)
    if not allowed or not encodable or not is_base64(media.data):
        return False
    found = media_type(media)
    if not media.data:
        kind = _kind_of(found)
        if rules.held and media.url.startswith(rules.held) and kind == "document":
            return True
        if not media.url.lower().startswith(rules.schemes) or kind not in rules.urls:
            return False
    return found in allowed or f"{found.partition('/')[0]}/*" in allowed
