"""The probes: small conversations that are hard to send, each about one thing that providers refuse.

All of them are made up here, so that a report about them can be shown to anybody.
"""

from __future__ import annotations

from typing import final

from msgspec import Struct

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec

ELSEWHERE = Origin("elsewhere", "elsewhere", "https://elsewhere.example", "some-model")
"""Who wrote the replies in the histories: nobody whose seals anybody can open."""
LOOK_UP = ToolSpec(
    "look_up",
    "Look a word up.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
PING = ToolSpec("ping", "Answers pong.", {})
ODD = ToolSpec(
    "odd.tool with/a name",
    "Takes nearly anything.",
    {
        "type": "object",
        "properties": {
            "any": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "rows": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        },
    },
)
SHORT = Options(max_tokens=64)
"""A few words are enough."""
THINKING = Options(max_tokens=2048, effort="low")
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PIXEL = Media("image", "image/png", _PIXEL)


@final
class Probe(Struct, frozen=True, kw_only=True):
    """One conversation to send."""

    name: str
    conversation: Conversation
    tools: tuple[ToolSpec, ...] = ()
    options: Options = SHORT
    then: tuple[Message, ...] = ()
    """Appended after the reply, whose calls get a result, for a second request: so seals go there and back."""


def _said(*blocks: Text | Reasoning | ToolCall | str) -> Message:
    return model(*blocks, origin=ELSEWHERE)


def _call(native_id: str, word: str = "fox", name: str = "look_up") -> ToolCall:
    return ToolCall("", name, {"word": word}, "", native_id)


def _result(native_id: str, text: str = "an animal", name: str = "look_up") -> ToolResult:
    return ToolResult("", name, text, complete=True, native_id=native_id)


def _talk(*messages: Message, system: str = "Be brief.") -> Conversation:
    return Conversation(system=system).append(*messages)


ASK, MORE = user("What is a fox?"), user("Answer with one word: ok.")
_TURN = (ASK, _said(_call("call_1")), tool(_result("call_1")), _said("An animal."))


def probes() -> tuple[Probe, ...]:
    """All probes, the simplest first: if that one fails, the others say nothing."""
    return (
        Probe(name="a plain prompt", conversation=_talk(MORE)),
        Probe(name="a whole turn with a tool", conversation=_talk(*_TURN, MORE), tools=(LOOK_UP,)),
        Probe(name="a history with calls, but no tools offered", conversation=_talk(*_TURN, MORE)),
        Probe(
            name="a call that was never answered",
            conversation=_talk(ASK, _said(_call("call_1")), MORE),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="parallel calls, one of them without a result",
            conversation=_talk(
                ASK,
                _said("Let me see.", *(_call(f"call_{n}", f"w{n}") for n in range(3))),
                tool(_result("call_2", "third"), _result("call_0", "first")),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="ids that are used again",
            conversation=_talk(*_TURN, ASK, *_TURN[1:], MORE),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="ids of other providers",
            conversation=_talk(
                *(
                    message
                    for native in ("functions.look_up:0", "a|b/c d", "x" * 90, "toolu_1", "")
                    for message in (ASK, _said(_call(native)), tool(_result(native)), _said("Yes."))
                ),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="a result without its call",
            conversation=_talk(ASK, tool(_result("call_9")), _said("An animal."), MORE),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="failed, cancelled and empty results",
            conversation=_talk(
                ASK,
                _said(*(_call(f"call_{n}") for n in range(3))),
                tool(
                    ToolResult("", "look_up", error="It is not there.", native_id="call_0"),
                    ToolResult("", "look_up", reason="cancelled_by_user", native_id="call_1"),
                    ToolResult("", "look_up", "", complete=True, native_id="call_2"),
                ),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="reasoning and signatures of another model",
            conversation=_talk(
                ASK,
                _said(Reasoning("A thought.", Seal(ELSEWHERE, "c2VhbGVk")), _call("call_1")),
                tool(_result("call_1")),
                _said(Reasoning("Another."), "An animal."),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="a compacted conversation",
            conversation=_talk(
                Message(
                    "user", (Text("[Earlier messages, summed up: a fox was asked about.]"),), instruction=True
                ),
                _said("An animal."),
                MORE,
            ),
        ),
        Probe(
            name="empty texts, and speakers that do not alternate",
            conversation=_talk(ASK, user("  "), MORE, _said(""), _said("Yes."), _said("No."), ASK, MORE),
        ),
        Probe(
            name="a note of the operator between messages",
            conversation=_talk(
                ASK, _said("An animal."), Message("user", (Text("Be kind."),), instruction=True), MORE
            ),
        ),
        Probe(name="no system prompt", conversation=_talk(MORE, system="")),
        Probe(name="a history that begins with the model", conversation=_talk(_said("Hello."), MORE)),
        Probe(name="an image", conversation=_talk(user("What is this?", PIXEL))),
        Probe(
            name="an image in a result",
            conversation=_talk(
                ASK,
                _said(_call("call_1")),
                tool(ToolResult("", "look_up", "see", media=(PIXEL,), complete=True, native_id="call_1")),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="odd tools: without parameters, with an odd name and schema",
            conversation=_talk(
                ASK, _said(_call("call_1", name=ODD.name)), tool(_result("call_1", name=ODD.name)), MORE
            ),
            tools=(PING, ODD),
        ),
        Probe(
            name="odd arguments: deep, long, not JSON",
            conversation=_talk(
                ASK,
                _said(
                    ToolCall("", "look_up", {"word": "ü\u0000\ud83d", "deep": [[[[[[{}]]]]]]}, "", "call_1"),
                    ToolCall("", "look_up", None, '{"word": "fo', "call_2"),
                ),
                tool(_result("call_1"), _result("call_2")),
                MORE,
            ),
            tools=(LOOK_UP,),
        ),
        Probe(
            name="there, elsewhere and back",
            conversation=_talk(user('Call look_up with the word "fox".')),
            tools=(LOOK_UP,),
            options=THINKING,
            then=(*_TURN, MORE),
        ),
    )
