"""The members of a Converse request, as the service model has them."""

from __future__ import annotations

from segue.emulators.converse.shape import (
    anything,
    blob,
    flag,
    listing,
    mapping,
    number,
    structure,
    text,
    union,
)

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
