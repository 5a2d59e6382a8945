"""Facts about one model, and what they change in the rules of its dialect."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, final

from msgspec import Struct, structs

from segue.transcript.rules import BRIDGE, NINE_CHARACTERS, MediaRules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.transcript.rules import ReasoningRules, Rules


@final
class ModelCard(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is known about the models whose name fits `match`. `None`: the dialect's own rule holds."""

    match: str = "*"
    dialects: tuple[str, ...] = ()
    """The dialects this card holds for; none means all."""
    wire: str = ""
    """The dialect it must be asked in, of those its provider has; empty: any will do."""
    family: Literal["", "claude", "nova", "other"] = ""
    """Whose own fields it takes, and where it takes cache points, on a wire that many families share. Empty: not known."""
    context: int | None = None
    """Tokens the model can read and write in one exchange."""
    output: int | None = None
    """Tokens it can write at most."""
    tools: bool = True
    images: bool | None = None
    sampling: bool = True
    """Whether temperature, top_p and top_k are accepted."""
    forced_choice: bool = True
    """Whether it can be made to call a tool."""
    named_choice: bool = True
    """Whether it can be made to call one tool in particular."""
    thinking: Literal["", "none", "manual", "adaptive", "always", "level", "budget", "effort", "switch"] = ""
    """How its thinking is asked for: by budget (`manual`, `budget`), by effort, by level, on its own; `none` cannot."""
    takes_budget: bool = False
    """Whether it takes a number of tokens to think as well, beside what `thinking` names."""
    thinking_off: str = "disabled"
    """The mode of thinking to ask for when it should not think, where modes have names."""
    efforts: tuple[str, ...] = ()
    completion_tokens: bool = False
    """The limit on output is called max_completion_tokens."""
    chat_tools: bool = True
    """Whether tools work on the Chat wire at all."""
    chat_effort_none: bool = False
    """Tools on the Chat wire need reasoning effort `none`, sent explicitly."""
    ends_with_model: bool | None = None
    bound_seals: bool | None = None
    call_seals: bool | None = None
    """Whether the first call of a step needs a seal."""
    json_schema: bool = True
    """Whether tools may be described in full JSON Schema, where the wire also has a smaller language for it."""
    answer_schema: bool = True
    """Whether an answer in words can be held to a JSON Schema."""
    schema_with_tools: bool = True
    """Whether that is possible while tools are offered."""
    call_ids: bool = True
    """Whether calls and results may carry ids."""
    media_in_results: bool | None = None
    replays_reasoning: bool | None = None
    requires_reasoning: bool | None = None
    parallel_calls: bool = True
    """Whether one message may hold several calls."""
    system: bool = True
    """Whether it knows a system prompt."""
    alternates: bool | None = None
    """Whether user and model must take turns."""
    bridge: bool | None = None
    """Whether a text of the model must be between tool results and a user message."""
    inline_instructions: bool | None = None
    """Whether it takes system notes in mid-conversation, where not every model of the wire does. None: not known."""
    nine_character_ids: bool = False
    """Whether call ids must be nine letters and digits."""

    def takes_schema(self, *, with_tools: bool) -> bool:
        """Whether its answer can be held to a JSON Schema. `with_tools`: while functions are offered."""
        return self.answer_schema and (self.schema_with_tools or not with_tools)


UNKNOWN = ModelCard()


def card_for(model: str, dialect: str, cards: Iterable[ModelCard]) -> ModelCard:
    """The first card that fits; its patterns are matched against the name without a vendor's path."""
    name = model.rpartition("/")[2].lower()
    for card in cards:
        if (not card.dialects or dialect in card.dialects) and fnmatchcase(name, card.match):
            return card
    return UNKNOWN


def fit_rules(rules: Rules, card: ModelCard) -> Rules:
    """The rules of a dialect as one model has them."""
    changed: dict[str, Any] = {"reasoning": _fit_reasoning(rules.reasoning, card)}
    media = rules.media
    if card.images is False:
        media = MediaRules()
    elif card.media_in_results is False:
        media = structs.replace(media, tool=frozenset())
    changed["media"] = media
    if card.ends_with_model is not None:
        changed["ends_with_model"] = card.ends_with_model
    changed["tools"] = card.tools
    if not card.parallel_calls:
        changed["calls_per_step"] = 1
    if not card.system:
        changed["system"] = "first_user"
    if card.inline_instructions and rules.instructions == "user":
        changed["instructions"] = "returned"
    if card.alternates is not None:
        changed["alternates"] = card.alternates
    if card.bridge is not None:
        changed["bridge"] = (rules.bridge or BRIDGE) if card.bridge else ""
    if card.nine_character_ids:
        changed["ids"] = NINE_CHARACTERS
    return structs.replace(rules, **changed)


def _fit_reasoning(rules: ReasoningRules, card: ModelCard) -> ReasoningRules:
    changed: dict[str, Any] = {}
    if card.bound_seals is not None:
        changed["bound"] = card.bound_seals
    if card.call_seals is False:
        changed["call_seal"] = ""
    if card.replays_reasoning is not None:
        native = "plain" if rules.replay == "none" else rules.replay
        changed["replay"] = native if card.replays_reasoning else "none"
    if card.requires_reasoning is False:
        changed["required"] = "none"
    return structs.replace(rules, **changed)
