"""The members of a Converse request, as the service model has them, and AWS's words for what a member is not."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from segue.emulators.rules import Refusal

Faults: TypeAlias = Iterator[Refusal]
Shape: TypeAlias = Callable[[Any, str], Faults]
"""Of a value and the path to it, in AWS's form: ``messages.1.member.content``."""
_JSON_NAMES = {str: "STRING_VALUE", bool: "TRUE_VALUE", int: "NUMBER_VALUE", float: "NUMBER_VALUE"}


def _fault(path: str, constraint: str, value: object = "", rule: str = "BDR-00") -> Refusal:
    shown = "null" if value is None else f"'{value}'"
    return Refusal(
        rule,
        f"1 validation error detected: Value {shown} at '{path}' failed to satisfy constraint: Member must {constraint}",
        type="ValidationException",
    )


def _wrong_type(value: object, wanted: str) -> Refusal:
    found = "START_OBJECT" if isinstance(value, dict) else "START_ARRAY" if isinstance(value, list) else ""
    name = found or _JSON_NAMES.get(type(value), "null")
    return Refusal("BDR-00", f"{name} can not be converted to {wanted}", type="SerializationException")


def text(
    *, enum: tuple[str, ...] = (), pattern: str = "", least: int = 0, most: int = 0, rule: str = "BDR-00"
) -> Shape:
    compiled = re.compile(pattern) if pattern else None

    def check(value: Any, path: str) -> Faults:
        if not isinstance(value, str):
            yield _wrong_type(value, "a String")
        elif enum and value not in enum:
            yield _fault(path, f"satisfy enum value set: [{', '.join(enum)}]", value, rule)
        elif len(value) < least:
            yield _fault(path, f"have length greater than or equal to {least}", value, rule)
        elif most and len(value) > most:
            yield _fault(path, f"have length less than or equal to {most}", value, rule)
        elif compiled is not None and compiled.fullmatch(value) is None:
            yield _fault(path, f"satisfy regular expression pattern: {pattern}", value, rule)

    return check


def blob(value: Any, path: str) -> Faults:
    if not isinstance(value, str):
        yield _wrong_type(value, "a Blob")
        return
    try:
        data = b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        yield Refusal("BDR-16", "Invalid base64 in a blob of the request.", type="SerializationException")
        return
    if not data:
        yield _fault(path, "have length greater than or equal to 1", value, "BDR-16")


def number(least: float | None = None, most: float | None = None, *, whole: bool = False) -> Shape:
    def check(value: Any, path: str) -> Faults:
        fits = isinstance(value, int) or (isinstance(value, float) and not whole)
        if isinstance(value, bool) or not fits:
            yield _wrong_type(value, "an Integer" if whole else "a Float")
        elif least is not None and value < least:
            yield _fault(path, f"have value greater than or equal to {least}", value, "BDR-12")
        elif most is not None and value > most:
            yield _fault(path, f"have value less than or equal to {most}", value, "BDR-12")

    return check


def flag(value: Any, path: str) -> Faults:
    del path
    if not isinstance(value, bool):
        yield _wrong_type(value, "a Boolean")


def anything(value: Any, path: str) -> Faults:
    del value, path
    yield from ()


def mapping(value: Any, path: str) -> Faults:
    """A document that must be an object."""
    if not isinstance(value, dict):
        place = path.replace(".member", "").replace(".", "/")
        yield Refusal(
            "BDR-07",
            f"The format of the value at {place} is invalid. Provide a json object for the field.",
            type="ValidationException",
        )


def listing(item: Shape, *, least: int = 0, most: int = 0, rule: str = "BDR-00") -> Shape:
    def check(value: Any, path: str) -> Faults:
        if not isinstance(value, list):
            yield _wrong_type(value, "a List")
            return
        if len(value) < least:
            yield _fault(path, f"have length greater than or equal to {least}", value, rule)
        if most and len(value) > most:
            yield _fault(path, f"have length less than or equal to {most}", "", rule)
        for index, held in enumerate(value, 1):
            yield from item(held, f"{path}.{index}.member")

    return check


def structure(members: Mapping[str, Shape], required: tuple[str, ...] = ()) -> Shape:
    def check(value: Any, path: str) -> Faults:
        if not isinstance(value, dict):
            yield _wrong_type(value, "a Structure")
            return
        for name in required:
            if value.get(name) is None:
                yield _fault(f"{path}.{name}" if path else name, "not be null", None)
        for name, held in value.items():
            place = f"{path}.{name}" if path else name
            if name not in members:
                yield _extraneous(path, name)
            elif held is not None:
                yield from members[name](held, place)

    return check


def union(members: Mapping[str, Shape]) -> Shape:
    inner = structure(members)

    def check(value: Any, path: str) -> Faults:
        yield from inner(value, path)
        if isinstance(value, dict) and sum(held is not None for held in value.values()) != 1:
            yield Refusal(
                "BDR-00",
                f"The value at {_pointer(path)} must set exactly one of the fields: {', '.join(members)}.",
                type="ValidationException",
            )

    return check


def _extraneous(path: str, name: str) -> Refusal:
    return Refusal(
        "BDR-00",
        f"Malformed input request: {_pointer(path)}: extraneous key [{name}] is not permitted, please reformat your "
        "input and try again.",
        type="ValidationException",
    )


def _pointer(path: str) -> str:
    """The path in the form of JSON pointers, which count from 0."""
    steps = [step for step in path.split(".") if step and step != "member"]
    return "#/" + "/".join(str(int(step) - 1) if step.isdigit() else step for step in steps)


_ID = text(least=1, most=64, pattern="[a-zA-Z0-9_.:-]+", rule="BDR-07")
_NAME = text(least=1, most=64, pattern="[a-zA-Z0-9_-]+", rule="BDR-07")
_S3 = structure(
    {
        "uri": text(least=1, most=1024, pattern=r"s3://[a-z0-9][\.\-a-z0-9]{1,61}[a-z0-9](/.*)?"),
        "bucketOwner": text(pattern="[0-9]{12}"),
    },
    ("uri",),
)
_POINT = structure({"type": text(enum=("default",)), "ttl": text(enum=("5m", "1h"))}, ("type",))
_CITATIONS = structure({"enabled": flag}, ("enabled",))
_IMAGE = structure(
    {
        "format": text(enum=("png", "jpeg", "gif", "webp"), rule="BDR-16"),
        "source": union({"bytes": blob, "s3Location": _S3}),
        "error": anything,
    },
    ("format", "source"),
)
_DOCUMENT = structure(
    {
        "format": text(enum=("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"), rule="BDR-16"),
        # The documentation of the name: letters, digits, single spaces, hyphens, parentheses and brackets.
        "name": text(
            least=1, most=200, pattern=r"[A-Za-z0-9\-()\[\]]+( [A-Za-z0-9\-()\[\]]+)*", rule="BDR-16"
        ),
        "source": union(
            {"bytes": blob, "s3Location": _S3, "text": text(), "content": listing(union({"text": text()}))}
        ),
        "context": text(),
        "citations": _CITATIONS,
    },
    ("name", "source"),
)
_VIDEO = structure(
    {
        "format": text(enum=("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp")),
        "source": union({"bytes": blob, "s3Location": _S3}),
    },
    ("format", "source"),
)
_AUDIO = structure({"format": text(), "source": union({"bytes": blob, "s3Location": _S3}), "error": anything})
_SEARCH_RESULT = structure(
    {
        "source": text(),
        "title": text(),
        "content": listing(structure({"text": text()}, ("text",))),
        "citations": _CITATIONS,
    },
    ("source", "title", "content"),
)
_RESULT = structure(
    {
        "toolUseId": _ID,
        "content": listing(
            union(
                {
                    "json": anything,
                    "text": text(),
                    "image": _IMAGE,
                    "document": _DOCUMENT,
                    "video": _VIDEO,
                    "searchResult": _SEARCH_RESULT,
                }
            )
        ),
        "status": text(enum=("success", "error")),
        "type": text(),
    },
    ("toolUseId", "content"),
)
_TOOL_REFERENCE = structure(
    {"tool": structure({"type": text(), "name": text(), "serverName": text()})}, ("tool",)
)
_BLOCK = union(
    {
        "text": text(),
        "image": _IMAGE,
        "document": _DOCUMENT,
        "video": _VIDEO,
        "audio": _AUDIO,
        "toolUse": structure(
            {"toolUseId": _ID, "name": _NAME, "input": mapping, "type": text(enum=("server_tool_use",))},
            ("toolUseId", "name", "input"),
        ),
        "toolResult": _RESULT,
        "guardContent": anything,
        "cachePoint": _POINT,
        "reasoningContent": union(
            {
                "reasoningText": structure({"text": text(), "signature": text()}, ("text",)),
                "redactedContent": blob,
            }
        ),
        "citationsContent": anything,
        "searchResult": _SEARCH_RESULT,
        "toolAddition": _TOOL_REFERENCE,
        "toolRemoval": _TOOL_REFERENCE,
    }
)
_MESSAGE = structure(
    {"role": text(enum=("user", "assistant", "system"), rule="BDR-11"), "content": listing(_BLOCK)},
    ("role", "content"),
)
_TOOL = union(
    {
        "toolSpec": structure(
            {
                "name": _NAME,
                "description": text(least=1, rule="BDR-07"),
                "inputSchema": union({"json": anything}),
                "strict": flag,
            },
            ("name", "inputSchema"),
        ),
        "systemTool": structure({"name": _NAME}, ("name",)),
        "cachePoint": _POINT,
    }
)
_TOOL_CONFIG = structure(
    {
        "tools": listing(_TOOL, least=1, rule="BDR-04"),
        "toolChoice": union(
            {"auto": structure({}), "any": structure({}), "tool": structure({"name": _NAME}, ("name",))}
        ),
    },
    ("tools",),
)
_COUNTED = {
    "messages": listing(_MESSAGE),
    "system": listing(union({"text": text(least=1), "guardContent": anything, "cachePoint": _POINT})),
    "toolConfig": _TOOL_CONFIG,
    "additionalModelRequestFields": anything,
}
CONVERSE = structure(
    {
        **_COUNTED,
        "inferenceConfig": structure(
            {
                "maxTokens": number(1, whole=True),
                "temperature": number(0, 1),
                "topP": number(0, 1),
                "stopSequences": listing(text(least=1, rule="BDR-12"), most=2500, rule="BDR-12"),
            }
        ),
        "guardrailConfig": anything,
        "promptVariables": anything,
        "additionalModelResponseFieldPaths": listing(text(least=1, most=256), most=10),
        "requestMetadata": anything,
        "performanceConfig": structure({"latency": text(enum=("standard", "optimized"))}),
        "serviceTier": structure({"type": text(enum=("priority", "default", "flex", "reserved"))}, ("type",)),
        "outputConfig": structure(
            {
                "textFormat": structure(
                    {
                        "type": text(enum=("json_schema",)),
                        "structure": union(
                            {
                                "jsonSchema": structure(
                                    {"schema": text(), "name": text(), "description": text()}, ("schema",)
                                )
                            }
                        ),
                    },
                    ("type", "structure"),
                ),
                "effort": text(most=16),
            }
        ),
    }
)
COUNT = structure(
    {"input": union({"converse": structure(_COUNTED), "invokeModel": structure({"body": blob}, ("body",))})},
    ("input",),
)
