"""Everything in a Gemini request beside the contents: tools, how free their choice is, and how to generate.

What this wire has and our options do not (safety settings, modalities) is kept in the options' `own`, in its own shape,
and goes back as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.gemini.read_contents import read_system
from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.wire import camel, field
from segue.dialects.requests.extra_fields import FieldKinds, own
from segue.dialects.requests.json_fields import items, record, text
from segue.dialects.requests.settings import OptionField, RequestSettings, read_own, take_options
from segue.dialects.schemas import flavours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript


_ENTRIES = FieldKinds(NAME, form=frozenset({"function_declarations"}))
_KINDS = FieldKinds(NAME, form=frozenset({"parameters", "parameters_json_schema", "behavior"}))


def _given_entries(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools = body.get("tools") or []
    listed = [tools] if isinstance(tools, dict) else items(tools, "tools")
    return [record(tool, f"tools[{index}]") for index, tool in enumerate(listed)]


def decode_tools(body: Mapping[str, Any]) -> Iterator[ToolSpec]:
    for index, entry in enumerate(_given_entries(body)):
        declared = field(entry, "functionDeclarations")
        path = f"tools[{index}].functionDeclarations"
        if not declared:
            yield ToolSpec(next(iter(entry), ""), kind="server", extra=Extra(NAME, fields=entry))
            continue
        around = _ENTRIES.kept(entry, {"functionDeclarations": declared})
        for place, given in enumerate([declared] if isinstance(declared, dict) else items(declared, path)):
            tool = record(given, f"{path}[{place}]")
            yield _decode_tool(tool, f"{path}[{place}]", around if place == 0 else None)


def _decode_tool(tool: dict[str, Any], path: str, around: Extra | None) -> ToolSpec:
    schema = field(tool, "parametersJsonSchema")
    if schema is None and tool.get("parameters") is not None:
        schema = json_schema(record(tool["parameters"], f"{path}.parameters"))
    spec = ToolSpec(
        text(tool.get("name"), f"{path}.name"),
        text(tool.get("description"), f"{path}.description"),
        record(schema, f"{path}.parametersJsonSchema") if schema is not None else None,
    )
    return structs.replace(spec, extra=_KINDS.kept(tool, plain_declaration(spec, spec.name), around))


def plain_declaration(tool: ToolSpec, name: str) -> dict[str, Any]:
    """A function with what every tool has, and nothing else."""
    return {"name": name, "description": tool.description, "parametersJsonSchema": tool.parameters}


def tool_entries(tools: list[tuple[ToolSpec, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Functions in the entries that they came in. Only the first entry is sure to be read: others all go into one."""
    entries: list[dict[str, Any]] = []
    declarations: list[dict[str, Any]] | None = None
    for tool, declaration in tools:
        extra = own(tool.extra, NAME)
        if tool.kind == "server" and extra is not None:
            entries.append(extra.fields)
            continue
        around = extra.container if extra is not None else None
        if declarations is None or around is not None:
            declarations = []
            entry = {"functionDeclarations": declarations}
            entries.append(entry if around is None else _filled(around.written(entry), declarations))
        declarations.append(declaration)
    return entries


def _filled(entry: dict[str, Any], declarations: list[dict[str, Any]]) -> dict[str, Any]:
    """The entry with the declarations under the name that it has for them."""
    return {
        name: declarations if camel(name) == "functionDeclarations" else held for name, held in entry.items()
    }


_TYPES = dict(enumerate(("string", "number", "integer", "boolean", "array", "object", "null"), start=1))
"""Types by the number that clients with generated code send."""


def json_schema(schema: Any, depth: int = 0) -> dict[str, Any]:
    """Gemini's own flavour in plain JSON Schema: types in lower case, and `nullable` as a type."""
    if not isinstance(schema, dict) or depth > 50:
        return {}
    written: dict[str, Any] = {}
    for key, value in schema.items():
        name = camel(key)
        if name == "type":
            written["type"] = _TYPES.get(value, value) if isinstance(value, int) else str(value).lower()
        elif name == "properties" and isinstance(value, dict):
            written["properties"] = {held: json_schema(inner, depth + 1) for held, inner in value.items()}
        elif name == "items":
            written["items"] = json_schema(value, depth + 1)
        elif name == "anyOf" and isinstance(value, list):
            written["anyOf"] = [json_schema(inner, depth + 1) for inner in value]
        elif name not in ("nullable", "propertyOrdering"):
            written[key if key.startswith("$") else name] = value
    if schema.get("nullable") is True and "type" in written:
        written["type"] = [written["type"], "null"]
    return written


_OPTIONS = (
    OptionField("max_tokens", "maxOutputTokens"),
    OptionField("stop", "stopSequences", most=5),  # GEM-58
    OptionField("seed", "seed"),
    OptionField("temperature", "temperature"),  # GEM-27: not on every model
    OptionField("top_p", "topP"),
    OptionField("top_k", "topK"),
)
_LEVELS = ("minimal", "low", "medium", "high")  # GEM-26
_HIGHEST = "xhigh"
"""A level that only some models have: their cards name it."""
_BUDGETS: Mapping[str, int] = {
    "none": 0,
    "minimal": 512,
    "low": 2048,
    "medium": 8192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
"""Tokens to think for each effort, on models that count them; the most is what all of them take."""


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        extra = settings.extra
        settings.tools(tools)
        settings.generation(_taken(extra, "generationConfig", "thinkingConfig"))
        if not tools:
            _taken(extra, "toolConfig", "functionCallingConfig")  # GEM-33: not without functions
        settings.body = _with(settings.body, extra)
        return settings

    settings = encoded(options)
    body = settings.as_they_came(decode_options, encoded)
    if not str(body.get("model", "")).startswith("models/"):
        body.pop("model", None)  # it is in the address
    came = own(options.own, NAME)
    if came is not None and isinstance(came.form.get("tools"), dict) and len(body.get("tools", ())) == 1:
        body["tools"] = body["tools"][0]
    given = field(came.form, "systemInstruction") if came is not None else None
    for name in ("systemInstruction", "system_instruction"):
        body.pop(name, None)
    if came is not None and given is not None and read_system(given) == transcript.system:
        name = "systemInstruction" if "systemInstruction" in came.form else "system_instruction"
        body[name] = given
    elif transcript.system:  # GEM-40
        body["systemInstruction"] = {"parts": [{"text": transcript.system}]}
    return body, settings.repairs


def _taken(extra: dict[str, Any], outer: str, inner: str) -> dict[str, Any]:
    """A field inside a field of the target's own, taken out of it."""
    held = extra.get(outer)
    if not isinstance(held, dict) or inner not in held:
        return {}
    rest = dict(held)
    taken = rest.pop(inner)
    if rest:
        extra[outer] = rest
    else:
        del extra[outer]
    return taken if isinstance(taken, dict) else {}


def _with(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the target's own among ours: objects are joined, lists of tools go one after the other."""
    joined = dict(body)
    for name, value in extra.items():
        held = joined.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            joined[name] = _with(held, value)
        elif isinstance(held, list) and isinstance(value, list):
            joined[name] = [*held, *value]
        else:
            joined[name] = value
    return joined


class _Settings(RequestSettings):
    # Tools

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        offered = self.offered(tools)
        functions = [(index, tool) for index, tool in offered if tool.kind != "server"]
        if offered and not functions:
            self.body["tools"] = tool_entries([(tool, {}) for _, tool in offered])
            return
        if not self.takes(functions):
            return
        self.body["tools"] = self.encode_tools(
            tools,
            lambda: tool_entries(
                [
                    (tool, self._declaration(index, tool) if tool.kind != "server" else {})
                    for index, tool in offered
                ]
            ),
            form="json_schema" if self.card.json_schema else "",
        )
        self.body["toolConfig"] = {"functionCallingConfig": self._choice()}
        if self.options.parallel_calls is False:
            self.not_sent("parallel_calls", "the target decides how many calls it makes at once")

    def _declaration(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        before, extra = len(self.repairs), own(tool.extra, NAME)
        declaration: dict[str, Any] = {"name": self.tool_name(tool.name)}
        if tool.description:
            declaration["description"] = encodable(tool.description)
        flavour = flavours.object_root if self.card.json_schema else flavours.gemini
        schema = self.tool_schema(tool, index, flavour)
        if schema.get("properties") or (self.card.json_schema and len(schema) > 2):  # GEM-30: else omitted
            declaration["parametersJsonSchema" if self.card.json_schema else "parameters"] = schema  # GEM-29
        if tool.strict:
            self.note("option_not_sent", f"tools[{index}].strict")
        if extra is not None and len(self.repairs) == before:
            return extra.written(plain_declaration(tool, declaration["name"]))
        return declaration

    def _choice(self) -> dict[str, Any]:
        choice = self.tool_choice()
        if type(choice) is Named:  # GEM-33
            return {
                "mode": "ANY",
                "allowedFunctionNames": [self.tool_name(choice.name)],
            }
        return {"mode": {"none": "NONE", "required": "ANY"}.get(str(choice), "AUTO")}

    # How to generate

    def generation(self, thinking: dict[str, Any]) -> None:
        """`thinking`: what the request itself has about it, in this wire's own fields."""
        options = self.options
        config: dict[str, Any] = {}
        self.add_options(_OPTIONS, config)
        self.not_known("repeat_penalty")
        if thinking := self._thinking(thinking):
            config["thinkingConfig"] = thinking
        if (
            options.response_schema is not None
            and "toolConfig" in self.body
            and not self.card.schema_with_tools
        ):
            self.not_sent("response_schema", "the model takes it only without tools")  # GEM-34
        elif options.response_schema is not None:
            self._format(config, options.response_schema)
        if config:
            self.body["generationConfig"] = config

    def _format(self, config: dict[str, Any], schema: dict[str, Any]) -> None:
        config["responseMimeType"] = "application/json"
        if self.card.json_schema:
            config["responseJsonSchema"] = ensure_json_safe(schema)
            return
        written, lost = flavours.gemini(schema)
        if lost:
            self.note("schema_reduced", "options.response_schema", "; ".join(lost))
        if written:
            config["responseSchema"] = written

    def _thinking(self, own: dict[str, Any]) -> dict[str, Any]:
        """GEM-26: newer models know levels, those before them count tokens."""
        effort, budget, way = self.options.effort, self.options.thinking_budget, self.card.thinking
        asked = {"effort": effort, "thinking_budget": budget}
        if way not in ("level", "budget", "manual"):
            if not own:
                for name, value in asked.items():
                    if value is not None:
                        self.not_sent(name, "the model is not known to take it")
            return own
        foreign = "thinkingBudget" if way == "level" else "thinkingLevel"
        config = {name: value for name, value in own.items() if name != foreign}
        if effort is None and budget is None:
            return config
        if way == "level":
            if budget is not None:
                self.not_sent("thinking_budget", "the model knows levels of thinking, not tokens")
            if effort is not None and str(config.get("thinkingLevel", "")).lower() != effort:
                config["thinkingLevel"] = self._level(effort)
        else:
            if effort is not None and budget is not None:
                self.not_sent("effort", "thinking_budget decides how long to think")
            config["thinkingBudget"] = budget if budget is not None else _BUDGETS[effort or "medium"]
        if config and not own:
            config["includeThoughts"] = effort != "none" and budget != 0
        return config

    def _level(self, effort: Effort) -> str:
        """The asked level, or the nearest the model has."""
        levels = (*_LEVELS, _HIGHEST) if _HIGHEST in self.card.efforts else _LEVELS
        beyond = {"none": 0, "xhigh": len(levels) - 1, "max": len(levels) - 1}
        rank = beyond[effort] if effort in beyond else levels.index(effort)
        return self.nearest_level(effort, levels, rank)


# The other way

_KNOWN = frozenset({"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
_MODES: Mapping[str, ToolChoice] = {"AUTO": "auto", "NONE": "none", "ANY": "required"}


def decode_options(body: Mapping[str, Any]) -> Options:
    extra = {key: value for key, value in body.items() if camel(key) not in _KNOWN}
    config = _camel_keys(record(field(body, "generationConfig") or {}, "generationConfig"))
    if not config.get("stopSequences"):
        config.pop("stopSequences", None)
    options = Options(
        model=text(body.get("model"), "model").removeprefix("models/"),
        **take_options(_OPTIONS, config, "generationConfig."),
        response_schema=_decode_format(config),
        tool_choice=_decode_choice(body, extra),
        **_decode_thinking(config),
    )
    if config:
        extra["generationConfig"] = config
    apart = {"tools"} if isinstance(body.get("tools"), list) and body["tools"] else set()
    apart |= {"contents"} if isinstance(body.get("contents"), list) else set()
    return structs.replace(options, own=read_own(NAME, body, extra, apart, None))


def _camel_keys(held: dict[str, Any]) -> dict[str, Any]:
    return {camel(key) if not key.startswith("_") else key: value for key, value in held.items()}


def _decode_thinking(config: dict[str, Any]) -> dict[str, Any]:
    """What our options can express of it; the whole stays in its own field too, for unknown models."""
    given = config.get("thinkingConfig")
    thinking = _camel_keys(given) if isinstance(given, dict) else {}
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if thinking:
        config["thinkingConfig"] = thinking
    if isinstance(level, str) and level.lower() in (*_LEVELS, _HIGHEST):
        return {"effort": level.lower()}
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return {"thinking_budget": budget} if budget else {"effort": "none"}
    return {}


def _decode_format(config: dict[str, Any]) -> dict[str, Any] | None:
    if config.get("responseMimeType") != "application/json":
        return None
    for name in ("responseJsonSchema", "_responseJsonSchema", "responseSchema"):
        schema = config.get(name)
        if isinstance(schema, dict):
            del config[name], config["responseMimeType"]
            return json_schema(schema) if name == "responseSchema" else schema
    return None


def _decode_choice(body: Mapping[str, Any], extra: dict[str, Any]) -> ToolChoice | None:
    """What our options cannot express (VALIDATED, a choice among several names) stays as it is."""
    given = record(field(body, "toolConfig") or {}, "toolConfig")
    rest = {camel(key): value for key, value in given.items()}
    calling = record(rest.pop("functionCallingConfig", None) or {}, "toolConfig.functionCallingConfig")
    config = _camel_keys(calling)
    mode = text(config.pop("mode", None), "toolConfig.functionCallingConfig.mode").upper()
    names = config.pop("allowedFunctionNames", None) or []
    choice = _MODES.get(mode)
    if choice == "required" and isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
        choice, names = Named(names[0]), []
    if names:
        config["allowedFunctionNames"] = names
    if mode and choice is None:
        config["mode"] = mode
    if config:
        rest["functionCallingConfig"] = config
    if rest:
        extra["toolConfig"] = rest
    return choice
