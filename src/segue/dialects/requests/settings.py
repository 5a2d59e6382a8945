"""What the settings of a request have in common on every wire: the options that are a field each, as a table (which field takes
which option, and within what bounds), the body, the repairs, and the choices that depend on what is known about the model. What a
wire asks for in a way of its own (thinking, tools, the shape of an answer) is no row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from msgspec import Struct, structs

from segue.conversation.blocks import Reasoning
from segue.conversation.extra import Extra
from segue.conversation.json_safe import ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named
from segue.dialects.caches.tool_cache import KnownTools, encode_once, settings_once
from segue.dialects.requests.extra_fields import own
from segue.dialects.requests.json_fields import number, texts, whole
from segue.dialects.schemas.strict import is_strict, strict_schema
from segue.transcript.repairs import Repair
from segue.transcript.steps import ModelStep

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice, ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import Transcript


_Reader: TypeAlias = Callable[[Any, str], Any]
_READERS: Mapping[str, _Reader] = {
    "max_tokens": whole,
    "temperature": number,
    "top_p": number,
    "top_k": whole,
    "repeat_penalty": number,
    "seed": whole,
    "stop": texts,
}


@final
class OptionField(Struct, frozen=True):
    """One row: an option of ours and the field that takes it."""

    option: str
    field: str
    least: int | None = None
    most: int | None = None
    """What the target takes; of a value beyond it, the nearest is sent. Of a list: how many it takes, and the first ones are sent."""

    def fitted(self, value: Any) -> tuple[Any, str]:
        """The value that is sent, and why it is another one; empty if it is not."""
        least, most = self.least, self.most
        if isinstance(value, tuple):
            if most is None or len(value) <= most:
                return value, ""
            return value[:most], f"the target takes at most {most}; the first {most} are sent"
        if least is not None and value < least:
            return least, f"the target takes {least} to {most}; sent as {least}"
        if most is not None and value > most:
            bound = (
                f"{most} is the most the target takes"
                if least is None
                else f"the target takes {least} to {most}"
            )
            return most, f"{bound}; sent as {most}"
        return value, ""


def take_options(rows: Sequence[OptionField], held: dict[str, Any], place: str = "") -> dict[str, Any]:
    """The options that an object of a request holds, taken out of it. `place`: the path to that object, with a dot."""
    found = {row.option: (held.pop(row.field, None), f"{place}{row.field}") for row in rows}
    return {option: _READERS[option](value, path) for option, (value, path) in found.items()}


_TAKE_TWINS: Final = frozenset({"openai_chat", "openai_responses"})
"""Wires whose own providers take several tools of one name; others refuse such a request (ANT-42)."""
_NAMES_SERVER_TOOLS: Final = "anthropic"
"""The wire whose server tools have names like any others. On other wires they are told by their kind."""


def offered_tools(
    tools: Sequence[ToolSpec], dialect: str, repairs: list[Repair]
) -> list[tuple[int, ToolSpec]]:
    """The tools that a wire can be offered, with their positions: not those that another provider runs, and of several with one
    name the first."""
    offered: list[tuple[int, ToolSpec]] = []
    namespaces = _namespaces(tools, dialect)
    first: dict[str, ToolSpec] = {}
    for index, tool in enumerate(tools):
        if tool.kind == "server" and own(tool.extra, dialect) is None:
            repairs.append(
                Repair(
                    "tool_not_offered",
                    dialect,
                    f"tools[{index}]",
                    decision=f'only its own provider runs "{tool.name}"',
                )
            )
            continue
        has_name = tool.kind != "server" or dialect == _NAMES_SERVER_TOOLS
        twin = first.setdefault(tool.name, tool) if has_name else tool
        if twin is not tool and dialect not in _TAKE_TWINS:
            same = (twin.description, twin.parameters) == (tool.description, tool.parameters)
            repairs.append(
                Repair(
                    "field_corrected" if same else "tool_not_offered",
                    dialect,
                    f"tools[{index}]",
                    decision=f'"{tool.name}" is offered twice; the first one is sent',
                )
            )
            continue
        about = namespaces.get(tool.namespace, "")
        described = "\n\n".join(filter(None, (tool.description, about)))
        offered.append((index, structs.replace(tool, description=described) if about else tool))
        extra = tool.extra
        if extra is not None and extra.dialect != dialect and (extra.fields or extra.hints):
            kind: Kind = "fields_dropped" if extra.fields else "hints_dropped"
            names = ", ".join((*extra.fields, *extra.hints))
            repairs.append(Repair(kind, dialect, f"tools[{index}]", decision=f"{extra.dialect}: {names}"))
    return offered


def _namespaces(tools: Sequence[ToolSpec], dialect: str) -> dict[str, str]:
    """What is said of the groups that tools came in, for a wire that has no groups."""
    found: dict[str, str] = {}
    for tool in tools:
        around = tool.extra.container if tool.namespace and tool.extra is not None else None
        if around is None or around.dialect == dialect:
            continue
        about = around.fields.get("description") or around.form.get("description")
        if isinstance(about, str) and about:
            found[tool.namespace] = f"{tool.namespace}: {about}"
    return found


def own_extra(options: Options, dialect: str) -> dict[str, Any]:
    """Fields of the target's own: those that were set for it, and those that came on its wire."""
    came = own(options.own, dialect)
    return dict(ensure_json_safe({**(came.fields if came is not None else {}), **(options.extra or {})}))


def came_for_model(options: Options, dialect: str) -> bool:
    """Whether the request was written on this wire for the very model that gets it: then its own fields suit that model."""
    came = own(options.own, dialect)
    return came is None or came.form.get("model", options.model) == options.model


def foreign_settings(came: Extra | None, dialect: str) -> list[Repair]:
    """What a request of another wire asked for in that wire's own fields, none of which is sent."""
    if came is None or came.dialect == dialect:
        return []
    decision = f"it belongs to {came.dialect}"
    repairs = [Repair("option_not_sent", dialect, name, decision=decision) for name in came.fields]
    around = came.container
    if around is not None and around.fields:
        lost = ", ".join(around.fields)
        repairs.append(Repair("fields_dropped", dialect, "system", decision=f"{came.dialect}: {lost}"))
    if around is not None and around.hints:
        lost = ", ".join(around.hints)
        repairs.append(Repair("hints_dropped", dialect, "system", decision=f"{came.dialect}: {lost}"))
    return repairs


_NEUTRAL = tuple(name for name in Options.__struct_fields__ if name not in ("model", "extra", "own"))


def read_own(
    dialect: str, body: Mapping[str, Any], fields: dict[str, Any], apart: Iterable[str], around: Extra | None
) -> Extra:
    """What a request asks for on its wire: `fields` have no other place, the rest is how it was written.

    `apart` are the fields that are kept elsewhere.
    """
    form = {**body}
    for name in apart:
        form.pop(name, None)
    for name, value in fields.items():
        if name in form and form[name] == value:
            del form[name]
    return Extra(dialect, fields, form=form, container=around)


def own_head(dialect: str, leading: list[Any] | None) -> Extra | None:
    """The messages that the system prompt came in, where it comes in messages."""
    if not leading:
        return None
    marks = [part for message in leading for part in _cache_marks(message.get("content"))]
    hints = {"cache_control": marks[0]} if marks else {}
    return Extra(dialect, hints=hints, form={"messages": leading})


def _cache_marks(content: Any) -> list[Any]:
    parts = content if isinstance(content, list) else []
    return [part["cache_control"] for part in parts if isinstance(part, dict) and part.get("cache_control")]


def as_they_came(
    settings: dict[str, Any],
    repairs: Sequence[Repair],
    options: Options,
    dialect: str,
    read: Callable[[Mapping[str, Any]], Options],
    encode: Callable[[Options], Mapping[str, Any]],
) -> dict[str, Any]:
    """Settings that came on this wire, for this model, and took no repair: as they were, but for what was changed since."""
    came = own(options.own, dialect)
    if came is None or any(not repair.path.startswith("tools") for repair in repairs):
        return settings
    written = {**came.fields, **came.form}
    before = read(written)
    if not written or before.model != options.model:
        return settings
    changed: dict[str, Any] = {}
    if options.extra or any(getattr(options, name) != getattr(before, name) for name in _NEUTRAL):
        base = encode(structs.replace(before, model=options.model, own=came, extra=None))
        changed = {name: value for name, value in settings.items() if base.get(name, written) != value}
        written = {name: value for name, value in written.items() if name in settings or name not in base}
    if "tools" in settings:
        changed["tools"] = settings["tools"]
    found = {**ensure_json_safe(written), **changed}
    # In the order in which we write them, so that what we wrote is written again with the same bytes.
    return {**{name: found[name] for name in settings if name in found}, **found}


def encode_settings_once(
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    encode: Callable[[], tuple[dict[str, Any], Sequence[Repair]]],
    *also: Hashable,
) -> tuple[dict[str, Any], Sequence[Repair]]:
    """What `encode` gives for these settings, which must not be changed. `also`: all else that it depends on."""
    target, names = transcript.target, transcript.names
    if type(tools) is not KnownTools or not (known := _what_counts(options, target.dialect)):
        return encode()
    # The names are kept along with the settings: as long as they live, no others have their identity.
    what = target.dialect, target.model, card, id(names), known, *also
    return settings_once(tools, what, lambda: (names, encode()))[1]


def _what_counts(options: Options, dialect: str) -> str:
    """All of the options that makes a difference on this wire, as text; empty if that is too much."""
    came = options.own
    if options.response_schema is not None or (came is not None and came.dialect == dialect):
        return ""
    # Of the fields of another wire only the names are reported.
    around = came.container if came is not None else None
    lost = (came.dialect, *came.fields) if came is not None else ()
    lost_around = ((*around.fields,), (*around.hints,)) if around is not None else ()
    return repr((_counted(options), lost, lost_around))


_counted = attrgetter(*(name for name in Options.__struct_fields__ if name not in ("own", "response_schema")))


class RequestSettings:
    """Collects everything in one request beside the messages, and notes what the target cannot be sent."""

    place = "options."
    """What the path of an option begins with, in what is noted of it."""
    drawn: Container[str] = frozenset({"temperature", "top_p", "top_k"})
    """Options that a model with fixed sampling refuses."""

    def __init__(self, transcript: Transcript, options: Options, card: ModelCard, dialect: str = "") -> None:
        """`dialect`: that of the transcript's target, unless it has none."""
        self.transcript = transcript
        self.options = options
        self.card = card
        self.dialect = dialect or transcript.target.dialect
        self.extra = own_extra(options, self.dialect)
        self.body: dict[str, Any] = {}
        self.repairs: list[Repair] = foreign_settings(options.own, self.dialect)

    def as_they_came(
        self, read: Callable[[Mapping[str, Any]], Options], encode: Callable[[Options], RequestSettings]
    ) -> dict[str, Any]:
        """The body, as it came where it may; `encode` gives the settings for other options."""
        return as_they_came(
            self.body, self.repairs, self.options, self.dialect, read, lambda before: encode(before).body
        )

    def note(self, kind: Kind, path: str, decision: str = "") -> None:
        self.repairs.append(Repair(kind, self.dialect, path, decision=decision))

    def not_sent(self, option: str, decision: str = "") -> None:
        self.note("option_not_sent", f"{self.place}{option}", decision)

    def output_limit(self) -> int | None:
        """The limit on what the model writes, as far as it can write; None if none was asked for."""
        asked, most = self.options.max_tokens, self.card.output
        if asked is None or most is None or asked <= most:
            return asked
        self.not_sent("max_tokens", f"the model writes at most {most} tokens; sent as {most}")
        return most

    def add_options(self, rows: Sequence[OptionField], into: dict[str, Any]) -> None:
        """Write the options of a wire's table, as far as the model takes them."""
        for row in rows:
            value = self.output_limit() if row.option == "max_tokens" else getattr(self.options, row.option)
            if value is None or value == ():
                continue
            if row.option in self.drawn and not self.card.sampling:
                self.not_sent(row.option, "the model takes no sampling parameters")
            elif reason := self.refusal(row.option, value):
                self.not_sent(row.option, reason)
            else:
                sent, reason = row.fitted(value)
                if reason:
                    self.not_sent(row.option, reason)
                into[row.field] = list(sent) if isinstance(sent, tuple) else sent

    def refusal(self, option: str, value: Any) -> str:  # noqa: ARG002 - for wires that have one
        """Why an option cannot be sent with what else is asked for; empty if it can."""
        return ""

    def not_known(self, *options: str) -> None:
        """Note those of the options that were asked for: the wire has no field for them."""
        for option in options:
            if getattr(self.options, option) not in (None, ()):
                self.not_sent(option, "the target does not know it")

    def add_extra(self, encoded: Container[str]) -> None:
        """Fields of the target's own, but for those that are `encoded` already or are not sent."""
        for key, value in self.extra.items():
            if key not in encoded:
                self.body.setdefault(key, value)

    def tool_name(self, name: str) -> str:
        return self.transcript.names.get(name, name)

    def takes(self, tools: Sequence[object]) -> bool:
        """Whether there are tools, and the model takes them."""
        if not tools:
            if self.options.tool_choice not in (None, "auto", "none"):
                self.not_sent("tool_choice", "there are no tools")
            return False
        if not self.card.tools:
            self.note("option_not_sent", "tools", "the model takes no tools")
        return self.card.tools

    def offered(self, tools: Sequence[ToolSpec]) -> list[tuple[int, ToolSpec]]:
        return offered_tools(tools, self.dialect, self.repairs)

    def encode_tools(
        self, tools: tuple[ToolSpec, ...], encode: Callable[[], list[dict[str, Any]]], *, form: str = ""
    ) -> list[dict[str, Any]]:
        """What `encode` gives for these tools. It depends on nothing but them, the wire, the names that they get, and `form`."""
        what = self.dialect, form, *self.transcript.names.items()
        return encode_once(tools, what, self.repairs, encode)

    def tool_schema(
        self, tool: ToolSpec, index: int, flavour: Callable[[Any], tuple[dict[str, Any], list[str]]]
    ) -> dict[str, Any]:
        """The parameters of a tool in the target's flavour of JSON Schema."""
        schema, lost = flavour(tool.parameters)
        if lost:
            self.note("schema_reduced", f"tools[{index}]", "; ".join(lost))
        return schema

    def answer_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of an answer in OpenAI's strict form, or as it is where it has none."""
        safe = ensure_json_safe(schema)
        written, lost = strict_schema(safe)
        if written is not None and lost:
            self.note("schema_reduced", "options.response_schema", "; ".join(lost))
        return {"schema": safe if written is None else written, "strict": written is not None}

    def strict_parameters(
        self, index: int, schema: dict[str, Any], *, as_came: bool
    ) -> dict[str, Any] | None:
        """The parameters of a tool that is to be strict; None where strict mode does not take them. `as_came`: nothing is rewritten."""
        written, lost = (schema if is_strict(schema) else None, []) if as_came else strict_schema(schema)
        if written is None:
            self.note("option_not_sent", f"tools[{index}].strict", "the schema does not allow it")
        elif lost:
            self.note("schema_reduced", f"tools[{index}]", "; ".join(lost))
        return written

    def tool_choice(self) -> ToolChoice | None:
        """The choice that was asked for; a free one where the model refuses to be forced."""
        choice = self.options.tool_choice
        if not self.card.forced_choice and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the model refuses a forced choice")
            return "auto"
        return choice

    def nearest_level(
        self, effort: Effort, levels: Sequence[str], rank: int, degrees: Sequence[str] = ()
    ) -> str:
        """The level of this rank, or the nearest that the model has. `degrees`: what it has, unless its card says so."""
        has = self.card.efforts or degrees
        known = [level for level in levels if not has or level in has]
        level = min(known, key=lambda name: abs(levels.index(name) - rank), default=levels[rank])
        return self._noted(level, effort)

    def level_below(self, effort: Effort, levels: Sequence[str], known: Container[str]) -> str:
        """The level that was asked for, or the nearest below it that is known, or the lowest."""
        fitting = [level for level in levels if level in known]
        rank = levels.index(effort) if effort in levels else 0
        below = [level for level in fitting if levels.index(level) <= rank]
        return self._noted((below[-1:] or fitting[:1] or [effort])[0], effort)

    def _noted(self, level: str, effort: Effort) -> str:
        if level != effort:
            self.not_sent("effort", f'the model does not know "{effort}"; sent as "{level}"')
        return level


def unthought_loop(transcript: Transcript) -> bool:
    """Whether the request ends inside a tool loop that does not begin with a thought."""
    opening: ModelStep | None = None
    steps = transcript.steps
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if type(step) is ModelStep:
            if opening is None and not step.calls:
                return False
            opening = step
            continue
        before = steps[index - 1] if index else None
        if type(before) is not ModelStep or not before.calls:
            break
    return opening is not None and type(opening.blocks[0]) is not Reasoning
