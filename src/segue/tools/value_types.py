"""Types of parameters and answers: the JSON Schema that a model reads, and the checked value of what it writes.

msgspec reads dataclasses, TypedDicts, Structs, enums, literals and `msgspec.Meta`; pydantic its models, `Field` and what is
made for it. Each passes over the notes of the other without a word, and a bound that is lost is found by nobody. So notes
are translated for whoever reads the type, and what cannot be translated is refused. pydantic is imported only for types
that need it.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from datetime import datetime, time
from functools import reduce
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final, final

import msgspec
from msgspec import Struct

_BOUNDS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
_WORDS: Final = ("title", "description", "examples", "extra_json_schema")
_HELD: Final = ("properties", "$defs", "definitions", "patternProperties")
"""Fields of a schema whose keys are names of somebody's, not words of JSON Schema."""
_DEFINITIONS: Final = "#/$defs/"

_READ_BY_PYDANTIC: Final = frozenset(
    ("Ge", "Gt", "Le", "Lt", "Interval", "MultipleOf", "MinLen", "MaxLen", "Len", "Predicate")
)
_PATHS: Final = (Path, PurePath, PurePosixPath, PureWindowsPath)
"""Texts on the wire. msgspec does not know them, and many tools take one."""

Facts: typing.TypeAlias = dict[str, Any]
"""What a note beside a type has, by the names of `msgspec.Meta`."""


class InexpressibleError(TypeError):
    """Why a type, or a note beside it, cannot be told to a model."""


class Misfit(ValueError):  # noqa: N818 - it is asked about, and never reaches a user
    """Why a value does not have the type: places and reasons."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{place}: {why}" if place else why for place, why in self.problems))


@final
class ValueType(Struct, frozen=True):
    """A type as a model sees it, and its values."""

    schema: dict[str, Any]
    definitions: dict[str, Any]
    """What `#/$defs/…` in the schema stands for."""
    convert: Callable[[Any], Any]
    """The value of plain JSON values. Raises Misfit."""


@final
class _Needs(Struct):
    """What somebody who reads the type must know."""

    pydantic: str = ""
    """The first thing that pydantic alone reads."""
    struct: str = ""
    """The first Struct: pydantic reads none."""
    meta: str = ""
    """The first field of a class with `msgspec.Meta`: it cannot be translated there."""
    bound: str = ""
    """The first bound that msgspec does not read."""
    inside: bool = False
    """Something that msgspec does not read stands inside a class, where nothing can be translated."""


def value_type(annotation: Any, *, strict: bool = False) -> ValueType:
    """Raises InexpressibleError. `strict`: 5.0 is no whole number, as where no schema was checked before."""
    annotation, needs = _unnamed(annotation, ()), _Needs()
    _look(annotation, needs, None, set())
    foreign, own = needs.pydantic or needs.bound, needs.struct or needs.meta
    if foreign and not own:
        return _from_pydantic(_translated(annotation, _as_field))
    why: str = f"{foreign} and {own} stand in one type, and neither msgspec nor pydantic reads both"
    if not (foreign and needs.inside):
        # A note of pydantic beside a Struct can be translated; one inside of it cannot.
        try:
            return _from_msgspec(_translated(annotation, _as_meta), strict=strict)
        except InexpressibleError as error:
            why = str(error)
        except KeyError as error:  # msgspec finds no name for it in its definitions
            why = (
                f"two classes in it have the same full name, {getattr(error.args[0], '__qualname__', error)}"
            )
        except (TypeError, ValueError, RecursionError, NameError) as error:
            unknown = "custom types" in str(error)
            why = why if foreign else f"nobody reads {annotation}" if unknown else str(error).splitlines()[0]
    if not foreign and not own and (read := _if_pydantic_can(annotation)) is not None:
        return read
    return _choice(annotation, strict=strict) or _refuse(why)


def field_in(annotation: Any) -> Any:
    """The `Field` of pydantic beside a type; None if there is none."""
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    return next((note for note in reversed(annotation.__metadata__) if is_field(note)), None)


def without_names(annotation: Any) -> Any:
    """The annotation of a parameter without what its `Field` has for the parameter alone: another name, a default."""
    if field_in(annotation) is None:
        return annotation
    notes = []
    for note in annotation.__metadata__:
        if is_field(note):
            note = copy(note)  # noqa: PLW2901
            note.alias = note.validation_alias = note.serialization_alias = note.alias_priority = None
            note.default, note.default_factory = ..., None
        notes.append(note)
    return reduce(lambda whole, note: typing.Annotated[whole, note], notes, annotation.__origin__)


def is_field(value: Any) -> bool:
    """Whether something is a `Field` of pydantic, as it may stand in the place of a default."""
    # The package loads its parts when they are asked for: it may be there without this one, and then nobody has a Field.
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(value, fields.FieldInfo)


def joined(types_: Mapping[str, ValueType]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The schemas of several types by their names, and one set of definitions for all of them."""
    schemas: dict[str, dict[str, Any]] = {}
    definitions: dict[str, Any] = {}
    for key, of in types_.items():
        renamed: dict[str, str] = {}
        for name, definition in of.definitions.items():
            number, free = 2, name
            while free in definitions and definitions[free] != definition:
                free, number = f"{name}_{number}", number + 1
            if free != name:
                renamed[_DEFINITIONS + name] = _DEFINITIONS + free
        for name, definition in of.definitions.items():
            target = renamed.get(_DEFINITIONS + name, _DEFINITIONS + name).removeprefix(_DEFINITIONS)
            definitions[target] = _redirected(definition, renamed)
        schemas[key] = _redirected(of.schema, renamed)
    return schemas, definitions


def _redirected(schema: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_redirected(inner, renamed) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: renamed.get(inner, inner)
        if key == "$ref" and isinstance(inner, str)
        else _redirected(inner, renamed)
        for key, inner in schema.items()
    }


def _refuse(why: str, cause: BaseException | None = None) -> typing.NoReturn:
    raise InexpressibleError(why) from cause


# Names that stand for other types


def _unnamed(annotation: Any, within: tuple[Any, ...]) -> Any:
    """The annotation with what its NewTypes and aliases stand for, so that their notes can be translated, too.

    An alias that stands within itself keeps its name: pydantic alone reads it.
    """
    if (named := _named(annotation)) is not None:
        inner = annotation if named in within else _unnamed(_value_of(annotation), (*within, named))
        return annotation if _mentions(inner, named) else inner
    return _rebuilt(annotation, lambda one: _unnamed(one, within))


def _named(annotation: Any) -> Any:
    """The NewType or alias that an annotation is, also with arguments; None if it is none."""
    origin = typing.get_origin(annotation)
    return next(
        (one for one in (annotation, origin) if hasattr(one, "__supertype__") or _is_alias(one)), None
    )


def _is_alias(annotation: Any) -> bool:
    return (
        type(annotation).__name__ == "TypeAliasType"
    )  # there are two of them: Python's, and that of typing_extensions


def _value_of(annotation: Any) -> Any:
    if hasattr(annotation, "__supertype__"):
        return annotation.__supertype__
    alias = annotation if _is_alias(annotation) else typing.get_origin(annotation)
    # Where it was written before what it names, its value has texts for types.
    holder = types.new_class(alias.__name__)
    holder.__annotations__ = {"value": alias.__value__}
    known = vars(sys.modules[alias.__module__]) if alias.__module__ in sys.modules else {}
    try:
        value = typing.get_type_hints(holder, dict(known), include_extras=True)["value"]
    except (NameError, TypeError, AttributeError) as error:
        _refuse(f"the alias {alias.__name__} cannot be read: {error}", error)
    return _replaced(value, dict(zip(alias.__type_params__, typing.get_args(annotation), strict=False)))


def _replaced(annotation: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(annotation, typing.TypeVar):
        return given.get(annotation, annotation)
    return _rebuilt(annotation, lambda one: _replaced(one, given))


def _mentions(annotation: Any, named: Any) -> bool:
    return _named(annotation) is named or any(_mentions(one, named) for one in typing.get_args(annotation))


def _rebuilt(annotation: Any, rewrite: Callable[[Any], Any]) -> Any:
    """The annotation with its arguments rewritten; itself where none of them changes."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None or origin is typing.Literal or not arguments:
        return annotation
    if origin is typing.Annotated:
        base = rewrite(annotation.__origin__)
        if base is annotation.__origin__:
            return annotation
        return reduce(lambda whole, note: typing.Annotated[whole, note], annotation.__metadata__, base)
    rewritten = tuple(
        rewrite(one) if not isinstance(one, list) and one is not Ellipsis else one for one in arguments
    )
    if all(a is b for a, b in zip(rewritten, arguments, strict=True)):
        return annotation
    if _is_union(annotation):
        return _union_of(rewritten)
    return annotation.copy_with(rewritten) if hasattr(annotation, "copy_with") else origin[rewritten]


# Who reads the type


def _look(annotation: Any, needs: _Needs, field: str | None, seen: set[int]) -> None:
    """`field`: of the class that the annotation stands in; None for an annotation that we may rewrite."""
    origin = typing.get_origin(annotation)
    if annotation is type or origin is type:
        _refuse("a class is no value that a model can write")
    if annotation is object:
        _refuse("nobody reads <class 'object'>: write Any for whatever the model likes")
    if origin is typing.Annotated:
        for note in annotation.__metadata__:
            _look_at_note(note, needs, field)
        _look(annotation.__origin__, needs, field, seen)
    elif origin is not None and origin is not typing.Literal:
        for argument in typing.get_args(annotation):
            _look(argument, needs, field, seen)
        _look(origin, needs, field, seen)
    elif (named := _named(annotation)) is not None and id(named) not in seen:
        # In a class, or within itself: nothing in it can be translated.
        seen.add(id(named))
        needs.pydantic = needs.pydantic or ("" if hasattr(named, "__supertype__") else named.__name__)
        _look(_value_of(annotation), needs, field or named.__name__, seen)
    elif isinstance(annotation, type) and id(annotation) not in seen:
        seen.add(id(annotation))
        _look_at_class(annotation, needs, seen)


def _look_at_class(kind: type, needs: _Needs, seen: set[int]) -> None:
    name = kind.__name__
    if hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__get_pydantic_core_schema__"):
        needs.pydantic = needs.pydantic or name
    elif issubclass(kind, Struct):
        needs.struct = needs.struct or name
    elif not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")):
        return
    if dataclasses.is_dataclass(kind) and any(is_field(one.default) for one in dataclasses.fields(kind)):
        needs.pydantic = needs.pydantic or name
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return  # whoever reads the type reports what is missing
    arguments = getattr(kind, "__pydantic_generic_metadata__", {}).get("args", ())
    for field, hint in [*hints.items(), *((str(number), one) for number, one in enumerate(arguments))]:
        _look(hint, needs, f"{name}.{field}", seen)


def _look_at_note(note: Any, needs: _Needs, field: str | None) -> None:
    if note is None:  # conint() and its like write one for every bound that they do not have
        return
    if isinstance(note, msgspec.Meta):
        needs.meta = needs.meta or (field or "")
    elif _is_of_pydantic(note):
        needs.pydantic = needs.pydantic or f"{type(note).__name__} of pydantic"
        needs.inside = needs.inside or field is not None
    elif _is_bound(note):
        if field is not None or _facts(note) is None:
            # A bound inside a class, or a rule that no schema has: pydantic checks both.
            needs.bound = needs.bound or f"{type(note).__name__} of annotated_types"
            needs.inside = needs.inside or field is not None
    elif field is not None or _facts(note) is None:
        place = f" at {field}" if field else ""
        _refuse(f"nobody reads {note!r:.100}{place}: write msgspec.Meta(description=…) or pydantic's Field")


def _is_bound(note: Any) -> bool:
    """Of annotated_types, and one that pydantic reads: it passes over the others without a word."""
    kind = type(note)
    return kind.__module__.partition(".")[0] == "annotated_types" and kind.__name__ in _READ_BY_PYDANTIC


def _is_of_pydantic(note: Any) -> bool:
    kind = note if isinstance(note, type) else type(note)
    return (
        kind.__module__.partition(".")[0] in ("pydantic", "pydantic_core")
        or hasattr(note, "__get_pydantic_core_schema__")
        or hasattr(note, "__get_pydantic_json_schema__")
    )


# Notes beside a type, in the words of whoever reads it


def _translated(annotation: Any, notes: Callable[[list[Any]], tuple[Facts, list[Any]]]) -> Any:
    """The annotation with every note in the words of one reader. `notes`: what msgspec or pydantic takes of them."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        base = _translated(annotation.__origin__, notes)
        bounds, rest = notes(list(annotation.__metadata__))
        if bounds and _is_union(base):
            # msgspec wants a bound beside the very type that it bounds.
            base = _union_of(tuple(_bounded(member, bounds) for member in typing.get_args(base)))
        elif bounds:
            base = _bounded(base, bounds)
        return reduce(lambda whole, note: typing.Annotated[whole, note], rest, base)
    return _rebuilt(annotation, lambda one: _translated(one, notes))


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _union_of(members: tuple[Any, ...]) -> Any:
    return typing.Union[members]  # noqa: UP007 - `|` does not take every member


def _bounded(base: Any, bounds: Facts) -> Any:
    if base is type(None):
        return base
    return typing.Annotated[base, msgspec.Meta(**bounds)]


def _as_meta(notes: list[Any]) -> tuple[Facts, list[Any]]:
    """Bounds by themselves, and the words as one note."""
    facts: Facts = {}
    for note in notes:
        read = {} if note is None else _facts(note)
        if read is None:
            _refuse(f"msgspec cannot check {note!r:.100}")
        facts |= read
    bounds = {name: value for name, value in facts.items() if name not in _WORDS}
    words = {name: value for name, value in facts.items() if name in _WORDS}
    return bounds, [msgspec.Meta(**words)] if words else []


def _as_field(notes: list[Any]) -> tuple[Facts, list[Any]]:
    from pydantic import Field  # noqa: PLC0415 - whoever gave the type has it

    written: list[Any] = []
    own = [note for note in notes if _is_of_pydantic(note) or _is_bound(note)]
    for note in notes:
        if note in own or note is None:
            continue
        facts = _facts(note) or {}
        if "tz" in facts:
            _refuse("pydantic does not read msgspec.Meta(tz=…)")
        extra = facts.pop("extra_json_schema", None)
        written.append(Field(**facts, **({"json_schema_extra": extra} if extra else {})))
    # First, as a bound after a function that checks the value would not reach the schema.
    return {}, [_OwnSchema(), *written, *own]


@final
class _OwnSchema:
    """A note before all others. A model that refers to itself has one schema for all places where it stands, and pydantic writes a
    description beside one of them into it: the next tool with this model would have it, too."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        schema = handler(source)
        return {**schema, "metadata": {**schema.get("metadata", {})}}


def _facts(note: Any) -> Facts | None:
    """What a note has to tell; None for one that has something else."""
    if isinstance(note, str):
        return {"description": note}
    if isinstance(note, msgspec.Meta):
        names = (*_BOUNDS, *_WORDS, "tz")
        return {name: value for name in names if (value := getattr(note, name)) is not None}
    if isinstance(documentation := getattr(note, "documentation", None), str):  # Doc of PEP 727
        return {"description": documentation}
    if is_field(note):
        return _facts_of_field(note)
    if _is_bound(note):
        return _facts_of_bound(note)
    if type(note).__module__ == "annotated_types" and type(note).__name__ == "Timezone":
        return {"tz": note.tz is ...} if note.tz in (..., None) else None
    if type(note).__name__ == "_PydanticGeneralMetadata" and vars(note).keys() <= {"pattern"}:
        return dict(vars(note))
    return None


def _facts_of_bound(note: Any) -> Facts | None:
    """`Ge` and its like have one field, named as in `msgspec.Meta`; `Interval` and `Len` are several of them."""
    if hasattr(note, "__is_annotated_types_grouped_metadata__"):
        facts: Facts = {}
        for part in note:
            if (read := _facts_of_bound(part)) is None:
                return None
            facts |= read
        return facts
    names = [one.name for one in dataclasses.fields(note)] if dataclasses.is_dataclass(note) else []
    if len(names) != 1 or names[0] not in _BOUNDS:
        return None
    return {names[0]: getattr(note, names[0])}


def _facts_of_field(field: Any) -> Facts | None:
    if field.discriminator is not None or callable(field.json_schema_extra):
        return None
    facts: Facts = {
        name: value for name in ("title", "description", "examples") if (value := getattr(field, name))
    }
    if field.json_schema_extra:
        facts["extra_json_schema"] = field.json_schema_extra
    for note in field.metadata:
        if (read := _facts(note)) is None:
            return None
        facts |= read
    return facts


# The readers


def _from_msgspec(annotation: Any, *, strict: bool) -> ValueType:
    (schema,), definitions = msgspec.json.schema_components(
        [annotation], ref_template="#/$defs/{name}", schema_hook=_schema_of_path
    )
    _note_times(annotation, schema, definitions, set())

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation, strict=strict, str_keys=True, dec_hook=_path)
        except msgspec.ValidationError as error:
            raise Misfit([("", str(error))]) from error

    return ValueType(schema, definitions, convert)


def _note_times(annotation: Any, schema: Any, definitions: Mapping[str, Any], seen: set[str]) -> None:
    """Name the form of dates with a time, where msgspec says no more than that they are texts: a zone may be missing there."""
    notes: tuple[Any, ...] = ()
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, notes = annotation.__origin__, annotation.__metadata__
    if not isinstance(schema, dict) or any(getattr(note, "tz", None) is False for note in notes):
        return
    if annotation is datetime or annotation is time:
        if schema.keys() <= {"type", *_WORDS} and schema["type"] == "string":
            schema["format"] = "date-time" if annotation is datetime else "time"
        return
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_DEFINITIONS)
        kind, schema = typing.get_origin(annotation) or annotation, definitions[name]
        # In a union it may be the class of another branch.
        if name in seen or getattr(kind, "__name__", "") != schema.get("title", "").partition("[")[0]:
            return
        seen.add(name)
    for inner, part in _parts_of(annotation, schema):
        _note_times(inner, part, definitions, seen)


def _parts_of(annotation: Any, schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The types within a type, with their schemas."""
    arguments, items = typing.get_args(annotation), schema.get("prefixItems", ())
    if _is_union(annotation):
        texts = [one for one in map(_bare, arguments) if one in (str, datetime, time)]
        if len(texts) < 2:  # else nobody knows which of the branches it is
            yield from ((member, branch) for member in arguments for branch in schema.get("anyOf", ()))
    elif "properties" in schema or (items and not arguments):
        held = schema["properties"] if "properties" in schema else dict(enumerate(items))
        for field, hint in _fields_of(annotation, as_tuple=not schema.get("properties")):
            yield hint, held.get(field)
    elif arguments:
        yield from zip(arguments, items, strict=False)
        last = arguments[0] if arguments[-1] is Ellipsis else arguments[-1]
        yield from ((last, schema.get("items")), (last, schema.get("additionalProperties")))


def _bare(annotation: Any) -> Any:
    return annotation.__origin__ if typing.get_origin(annotation) is typing.Annotated else annotation


def _fields_of(annotation: Any, *, as_tuple: bool) -> Iterator[tuple[Any, Any]]:
    """The fields of a class as they are written, with their types."""
    kind = typing.get_origin(annotation) or annotation
    given = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(annotation), strict=False))
    written = (
        {one.name: one.encode_name for one in msgspec.structs.fields(kind)}
        if issubclass(kind, Struct)
        else {}
    )
    hints = typing.get_type_hints(kind, include_extras=True)
    for number, (name, hint) in enumerate(hints.items()):
        yield number if as_tuple else written.get(name, name), _replaced(_required(hint), given)


def _required(hint: Any) -> Any:
    """The type of a field of a TypedDict, whether or not it must be there."""
    is_marked = typing.get_origin(hint) in (typing.Required, typing.NotRequired)
    return typing.get_args(hint)[0] if is_marked else hint


def _schema_of_path(kind: type) -> dict[str, Any]:
    if kind in _PATHS:
        return {"type": "string"}
    raise NotImplementedError


def _path(kind: type, value: Any) -> Any:
    if kind in _PATHS and isinstance(value, str):
        return kind(value)
    raise ValueError("Expected `str`")


def _if_pydantic_can(annotation: Any) -> ValueType | None:
    """What msgspec does not read, such as bounds of dates; None if pydantic does not either."""
    try:
        return _from_pydantic(_translated(annotation, _as_field))
    except (InexpressibleError, ImportError):
        return None


def _from_pydantic(annotation: Any) -> ValueType:
    try:
        import pydantic  # noqa: PLC0415 - only types that need it come here
    except ImportError as error:
        _refuse("only pydantic reads a rule of annotated_types there, and it is not installed", error)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*has no effect in the context")
            adapter = pydantic.TypeAdapter(annotation)
        schema = adapter.json_schema()
    except UserWarning as error:
        _refuse(str(error).splitlines()[0], error)
    except pydantic.PydanticUserError as error:
        _refuse(error.message, error)
    except (TypeError, ValueError, RecursionError, NameError) as error:
        _refuse(str(error).splitlines()[0], error)
    if lost := next((word for word in _words(schema) if word in ("ge", "gt", "le", "lt")), ""):
        _refuse(f"{lost} bounds numbers, and stands beside another type")
    definitions = schema.pop("$defs", {})

    def convert(value: Any) -> Any:
        try:
            # From JSON, so that lists may be sets and texts dates.
            return adapter.validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            raise Misfit(
                (".".join(str(step) for step in one["loc"]), one["msg"]) for one in problems
            ) from error

    return ValueType(schema, definitions, convert)


def _words(schema: Any) -> Iterator[str]:
    """All words of a schema, without the names of properties."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _words(inner)
    elif isinstance(schema, dict):
        for key, inner in schema.items():
            if key in _HELD and isinstance(inner, dict):
                for held in inner.values():
                    yield from _words(held)
            elif key not in ("default", "examples", "enum", "const"):
                yield key
                yield from _words(inner)


def _choice(annotation: Any, *, strict: bool) -> ValueType | None:
    """A union that neither reads as a whole, as a choice of types; None if it is no union.

    A value is of the first type whose schema it fits, and of several objects the one that knows most of its fields.
    """
    if not _is_union(annotation):
        return None
    members = {str(number): one for number, one in enumerate(typing.get_args(annotation))}
    read = {number: value_type(one, strict=strict) for number, one in members.items()}
    schemas, definitions = joined(read)
    fits = {number: _checker({**schema, "$defs": definitions}) for number, schema in schemas.items()}
    known = {number: _properties(schema, definitions) for number, schema in schemas.items()}

    def convert(value: Any) -> Any:
        fitting = [number for number in members if fits[number](value)]
        if not fitting:
            raise Misfit([("", "it fits none of the types that it may have")])
        keys = value.keys() if isinstance(value, dict) else ()
        chosen = max(fitting, key=lambda number: sum(key in known[number] for key in keys))
        return read[chosen].convert(value)

    return ValueType({"anyOf": list(schemas.values())}, definitions, convert)


def _properties(schema: dict[str, Any], definitions: dict[str, Any]) -> frozenset[str]:
    whole = definitions.get(str(schema.get("$ref", "")).removeprefix(_DEFINITIONS), schema)
    return frozenset(whole.get("properties", ()))


def _checker(schema: dict[str, Any]) -> Callable[[Any], bool]:
    import jsonschema_rs  # noqa: PLC0415 - slow to load

    return jsonschema_rs.validator_for(schema).is_valid
