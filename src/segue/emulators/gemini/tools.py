"""Function declarations, their schemas and the calling mode: GEM-29 … GEM-34."""

from __future__ import annotations

import re
from collections import Counter

from segue.emulators.gemini import contents
from segue.emulators.gemini.contents import Body, refused
from segue.emulators.rules import Complaints, Context, rule

REQUEST = "* GenerateContentRequest"
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
STUDIO_NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9),"
    " underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n"
)
VERTEX_NAME = (
    "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or"
    " contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)


def complaints(body: Body, context: Context) -> Complaints:
    yield from names(body, context)
    yield from duplicate_names(body)
    for path, declaration in contents.declarations_of(body):
        yield from two_schemas(path, declaration)
        for field in ("parameters", "response"):
            if field in declaration:
                yield from schema(f"{REQUEST}.{path}.{field}", declaration[field])
        yield from empty_root(f"{REQUEST}.{path}.parameters", declaration.get("parameters", {}))
    yield from mode_without_declarations(body)
    yield from allowed_names(body)
    yield from json_mode(body, context)


@rule("GEM-31")
def names(body: Body, context: Context) -> Complaints:
    for path, declaration in contents.declarations_of(body):
        if NAME.fullmatch(declaration.get("name", "")):
            continue
        if context.platform == "vertex":
            text = f"The GenerateContentRequest proto is invalid:\n  * {path}.name: {VERTEX_NAME}"
        else:
            text = f"{REQUEST}.{path}.name: {STUDIO_NAME}"
        yield refused("GEM-31", text)


@rule("GEM-32", "M")
def duplicate_names(body: Body) -> Complaints:
    found = Counter(declaration.get("name", "") for _, declaration in contents.declarations_of(body))
    for name, times in found.items():
        if times > 1:
            yield refused("GEM-32", f"Duplicate function declaration found: {name}", "M")


@rule("GEM-29")
def two_schemas(path: str, declaration: Body) -> Complaints:
    if "parameters" in declaration and "parameters_json_schema" in declaration:
        text = f"{REQUEST}.{path}: parameters and parameters_json_schema are mutually exclusive."
        yield refused("GEM-29", text)


@rule("GEM-30")
def schema(path: str, value: Body) -> Complaints:
    """What a schema of this dialect needs beyond known fields, at every depth."""
    properties = value.get("properties", {})
    if value.get("type") == "ARRAY" and "items" not in value:
        yield refused("GEM-30", f"{path}.items: missing field.")
    for index, name in enumerate(value.get("required", ())):
        if name not in properties:
            yield refused("GEM-30", f"{path}.required[{index}]: property is not defined")
    for name, inner in properties.items():
        yield from schema(f"{path}.properties[{name}]", inner)
    for index, inner in enumerate(value.get("any_of", ())):
        yield from schema(f"{path}.any_of[{index}]", inner)
    if "items" in value:
        yield from schema(f"{path}.items", value["items"])


@rule("GEM-30", "L")
def empty_root(path: str, value: Body) -> Complaints:
    """Refused in old reports; recordings of newer models show it accepted."""
    if value.get("type") == "OBJECT" and not value.get("properties"):
        yield refused("GEM-30", f"{path}.properties: should be non-empty for OBJECT type", "L")


@rule("GEM-33", "M")
def mode_without_declarations(body: Body) -> Complaints:
    if contents.calling_of(body).get("mode") in ("ANY", "VALIDATED") and not any(
        contents.declarations_of(body)
    ):
        yield refused("GEM-33", "Function calling config is set without function_declarations.", "M")


@rule("GEM-33")
def allowed_names(body: Body) -> Complaints:
    calling = contents.calling_of(body)
    if calling.get("allowed_function_names") and calling.get("mode") not in ("ANY", "VALIDATED"):
        text = (
            "Unable to submit request because it has allowed_function_names set when"
            " function_calling_config.mode is not ANY."
        )
        yield refused("GEM-33", text)


@rule("GEM-34")
def json_mode(body: Body, context: Context) -> Complaints:
    kind = contents.settings_of(body).get("response_mime_type")
    if kind != "application/json" or context.facts.get("json_with_functions") is not False:
        return
    if any(contents.declarations_of(body)):
        text = "Function calling with a response mime type: 'application/json' is unsupported"
        yield refused("GEM-34", text)
