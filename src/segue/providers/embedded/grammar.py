"""JSON Schema as a grammar of the engine (GBNF), so that a model cannot write anything that does not fit; and the
forms of calls that use it.

Every text of the grammar is valid JSON, and valid for the schema except for what no grammar of this kind can express:
`pattern`, `multipleOf`, `uniqueItems`, `not`, conditions, and sizes beyond `MOST`. Properties come in the order of
the schema; those it does not name are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from msgspec import Struct, structs

from segue.dialects.schemas.cleanup import TYPES, read_schema
from segue.dialects.schemas.union import both
from segue.errors import UsageError
from segue.transcript.blocks.value_text import json_of
from segue.transcript.text_tools.form import Form, Offer, offer_of
from segue.transcript.text_tools.json_calls import JSON_CALLS, parameters_of
from segue.transcript.text_tools.react import SHORT_REACT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.schemas.cleanup import Schema


MOST = 200
"""The engine writes a repetition out, and refuses very long ones: beyond this, sizes are left open."""
_DIGITS = 15
"""Whole numbers up to this many digits survive every JSON reader."""
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_FRACTION = '"." [0-9]{1,6}'
_HINTS = (
    ("object", frozenset({"properties", "required", "additionalProperties", "patternProperties"})),
    ("array", frozenset({"items", "prefixItems", "minItems", "maxItems"})),
    ("string", frozenset({"minLength", "maxLength", "pattern", "format"})),
    ("number", frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})),
)
"""The type that a schema without one means, by its other keywords."""
_SHARED: Mapping[str, str] = {
    "value": "object | array | string | number | boolean | null",
    "object": '"{" (pair (", " pair)*)? "}"',
    "pair": 'string ": " value',
    "array": '"[" (value (", " value)*)? "]"',
    "string": r'"\"" character* "\""',
    # A half of a surrogate pair is no character: readers refuse it.
    "character": r'[^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" ([0-9abcefABCEF] hex hex hex | [dD] [0-7] hex hex))',
    "hex": "[0-9a-fA-F]",
    "number": f"integer ({_FRACTION})?",
    "integer": f'"-"? ("0" | [1-9] [0-9]{{0,{_DIGITS - 1}}})',
    "boolean": '"true" | "false"',
    "null": '"null"',
}


class Grammar:
    """Rules, collected one by one; `text` makes a grammar of them."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def rule(self, expression: str) -> str:
        """The name of a rule with this expression; the same expression is the same rule."""
        if expression not in self._names:
            name = f"r{len(self._names)}"
            self._names[expression] = name
            self._rules[name] = expression
        return self._names[expression]

    def value(self, schema: Any) -> str:
        """The name of a rule for JSON values that fit a schema."""
        read, _ = read_schema(schema, inline=True)
        return self._schema_rule(read)

    def text(self, root: str) -> str:
        rules = {"root": root, **self._rules, **_SHARED}
        return "".join(f"{name} ::= {expression}\n" for name, expression in rules.items())

    def _schema_rule(self, schema: Schema) -> str:
        for part in schema.get("allOf", ()):
            schema = both({key: held for key, held in schema.items() if key != "allOf"}, part, "", [])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                rest = {name: held for name, held in schema.items() if name != key}
                return self._any(self._schema_rule(both(branch, rest, "", [])) for branch in schema[key])
        if "const" in schema:
            return self.rule(quoted(_json(schema["const"])))
        if "enum" in schema:
            fitting = [value for value in schema["enum"] if _is_of(value, schema.get("type"))]
            return self._any(self.rule(quoted(_json(value))) for value in fitting or schema["enum"])
        kinds = schema.get("type") or next((kind for kind, words in _HINTS if words & schema.keys()), "value")
        return self._any(
            self._of_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)
        )

    def _any(self, names: Iterable[str]) -> str:
        different = list(dict.fromkeys(names))
        return different[0] if len(different) == 1 else self.rule(" | ".join(different))

    def _of_kind(self, kind: str, schema: Schema) -> str:
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        if kind == "string":
            least, most = _sizes(schema, "minLength", "maxLength")
            return (
                self.rule(rf'"\"" character{_times(least, most)} "\""') if least or most is not None else kind
            )
        if kind in ("integer", "number"):
            numbers = _numbers(schema, fractions=kind == "number")
            return self.rule(numbers) if numbers else kind
        return kind

    def _object(self, schema: Schema) -> str:
        more = schema.get("additionalProperties", True)
        properties: dict[str, Any] = dict(schema.get("properties", {}))
        needed = schema.get("required", ())
        for name in needed:
            properties.setdefault(name, more if isinstance(more, dict) else {})
        if not properties:
            if more is False:
                return self.rule('"{}"')
            pair = self.rule(f'string ": " {self._schema_rule(more)}') if isinstance(more, dict) else "pair"
            least, most = _sizes(schema, "minProperties", "maxProperties")
            return self.rule(f'"{{" {_listed(pair, least, most)} "}}"')
        pairs = [
            self.rule(f'{quoted(_json(name))} ": " {self._schema_rule(_schema(held))}')
            for name, held in properties.items()
        ]
        return self.rule(f'"{{" {self._pairs(pairs, [name in needed for name in properties])} "}}"')

    def _pairs(self, pairs: Sequence[str], needed: Sequence[bool]) -> str:
        """All of the needed ones and any of the others, in order, with commas between them."""
        if any(needed):
            first = needed.index(True)
            before = [f'({pair} ", ")?' for pair in pairs[:first]]
            behind = [
                f'", " {pair}' if must else f'(", " {pair})?'
                for pair, must in zip(pairs[first + 1 :], needed[first + 1 :], strict=True)
            ]
            return " ".join((*before, pairs[first], *behind))
        beginnings: list[str] = []
        tail = ""
        for pair in reversed(pairs):
            beginnings.append(f"{pair} {tail}".rstrip())
            tail = self.rule(f'(", " {pair})? {tail}'.rstrip())
        return f"({' | '.join(reversed(beginnings))})?"

    def _array(self, schema: Schema) -> str:
        first = [self._schema_rule(part) for part in schema.get("prefixItems", ())]
        items = schema.get("items", {})
        least, most = _sizes(schema, "minItems", "maxItems")
        if not first:
            item = self._schema_rule(_schema(items))
            return self.rule(f'"[" {_listed(item, least, 0 if items is False else most)} "]"')
        # A tuple is written whole: shorter ones may be legal too, but nobody means them.
        missing = least - len(first)
        if missing > 0 and items is not False:
            first += [self._schema_rule(_schema(items))] * missing
        members = ' ", " '.join(first)
        return self.rule(f'"[" {members} "]"')


def quoted(text: str) -> str:
    """A text as a literal of the grammar."""
    escaped = "".join(_ESCAPES.get(character, character) for character in text)
    return f'"{escaped}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x7f": "\\x7F"}


def _json(value: Any) -> str:
    # Small vocabularies cannot spell every character beyond the first plane, and the engine fails when it must.
    return _ASTRAL.sub(lambda found: json.dumps(found[0])[1:-1], json.dumps(value, ensure_ascii=False))


def _schema(held: Any) -> Schema:
    return held if isinstance(held, dict) else {}


def _is_of(value: Any, kinds: Any) -> bool:
    named = kinds if isinstance(kinds, list) else [kinds]
    return kinds is None or any(_KINDS[kind](value) for kind in named if kind in TYPES)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == floor(value),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _sizes(schema: Schema, least: str, most: str) -> tuple[int, int | None]:
    low, high = schema.get(least, 0), schema.get(most)
    return min(low, MOST), high if high is not None and high <= MOST else None


def _times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def _listed(item: str, least: int, most: int | None) -> str:
    """From `least` to `most` of them, with commas between."""
    if most == 0:
        return '""'
    behind = _times(max(least - 1, 0), None if most is None else most - 1)
    several = f'{item} (", " {item}){behind}'
    return several if least else f"({several})?"


def _numbers(schema: Schema, *, fractions: bool) -> str:
    """Numbers within bounds; empty if there are no bounds, or no whole number within them."""
    lows = [ceil(schema["minimum"])] if "minimum" in schema else []
    lows += [floor(schema["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in schema else []
    highs = [floor(schema["maximum"])] if "maximum" in schema else []
    highs += [ceil(schema["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in schema else []
    largest = 10**_DIGITS - 1
    low, high = max([-largest, *lows]), min([largest, *highs])
    if not (lows or highs) or low > high:
        return ""
    options = [_wholes(low, high)]
    # With a fraction, only between whole numbers that both lie within the bounds.
    if fractions and low < high:
        options.append(f"({_wholes(max(low, 0), high - 1)}) {_FRACTION}" if high > 0 else "")
        options.append(f'"-" ({_wholes(max(-high, 0), -low - 1)}) {_FRACTION}' if low < 0 else "")
    return " | ".join(filter(None, options))


def _wholes(low: int, high: int) -> str:
    """All whole numbers from one to the other."""
    options = []
    if high >= 0:
        options += _magnitudes(max(low, 0), high)
    if low < 0:
        options.append(f'"-" ({" | ".join(_magnitudes(max(-high, 1), -low))})')
    return " | ".join(options)


def _magnitudes(low: int, high: int) -> list[str]:
    options = []
    for digits in range(len(str(low)), len(str(high)) + 1):
        first, last = max(low, 10 ** (digits - 1) if digits > 1 else 0), min(high, 10**digits - 1)
        options.append(_between(str(first), str(last)))
    return options


def _between(low: str, high: str) -> str:
    """Digits from one text to another that is as long."""
    if len(low) == 1:
        return f"[{low}-{high}]"
    rest = len(low) - 1
    zeros, nines = "0" * rest, "9" * rest
    if low[0] == high[0]:
        return f'"{low[0]}" ({_between(low[1:], high[1:])})'
    first, last = int(low[0]), int(high[0])
    options = []
    if low[1:] != zeros:
        options.append(f'"{first}" ({_between(low[1:], nines)})')
        first += 1
    if high[1:] != nines:
        options.append(f'"{last}" ({_between(zeros, high[1:])})')
        last -= 1
    if first <= last:
        options.append(f"[{first}-{last}] [0-9]{{{rest}}}")
    return " | ".join(options)


FormName: TypeAlias = Literal["json", "react"]

_ANYTHING = "[^\\x00]*"


@final
class ConstrainedForm(Struct, frozen=True):
    """A form, and the grammar of the replies to an offer in it."""

    form: Form
    grammar: Callable[[Offer], str]


def _json_grammar(offer: Offer) -> str:
    grammar = Grammar()
    calls = [f'{_start_of_call(tool)} {grammar.value(parameters_of(tool))} "}}"' for tool in offer.tools]
    call = grammar.rule(" | ".join(calls))
    # Coding models like to fence their JSON: better a call in a fence than words about a call.
    call = grammar.rule(rf'{call} | "```json\n" {call} "\n```"')
    if offer.must_call:
        return grammar.text(call)
    if offer.answer is not None:
        return grammar.text(f"{call} | {grammar.value(offer.answer)}")
    words = rf'[^{{`<\[ \t\r\n] {_ANYTHING} | "```" [^j] {_ANYTHING}'
    return grammar.text(f"{call} | {words}")


def _start_of_call(tool: ToolSpec) -> str:
    return quoted(f'{{"name": {json_of(tool.name)}, "arguments": ')


def _react_grammar(offer: Offer) -> str:
    grammar = Grammar()
    actions = [
        f'"Action: " {quoted(tool.name)} "\\nAction Input: " {grammar.value(parameters_of(tool))}'
        for tool in offer.tools
    ]
    action = grammar.rule(" | ".join(actions))
    answer = _ANYTHING if offer.answer is None else grammar.value(offer.answer)
    ending = action if offer.must_call else f'({action} | "Final Answer: " {answer})'
    return grammar.text(rf'"Thought: " [^\n\x00]{{1,200}} "\n" {ending}')


FORMS: Mapping[FormName, ConstrainedForm] = {
    "json": ConstrainedForm(JSON_CALLS, _json_grammar),
    "react": ConstrainedForm(SHORT_REACT, _react_grammar),
}


def offer_for(tools: tuple[ToolSpec, ...], options: Options) -> Offer:
    """What a request offers. A tool that must be called is offered alone."""
    offer = offer_of(tools, options)
    if not offer.named:
        return offer
    alone = tuple(tool for tool in offer.tools if tool.name == offer.named)
    if not alone:
        raise UsageError(
            f'The model must call "{offer.named}", which is not offered.',
            code="tool_not_offered",
            path="options.tool_choice",
            hint="Offer the tool, or choose another.",
        )
    return structs.replace(offer, tools=alone)


def reply_grammar(offer: Offer, form: ConstrainedForm) -> str | None:
    """The grammar of a reply; None if it is free."""
    if offer.tools:
        return form.grammar(offer)
    if offer.answer is None:
        return None
    grammar = Grammar()
    return grammar.text(grammar.value(offer.answer))
