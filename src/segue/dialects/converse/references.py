"""What a Converse request may refer to without holding it."""

from __future__ import annotations

from typing import Final

from segue.dialects.references import ReferenceField, member_name, whole_name

_uri: Final = member_name("uri")


def _file(place: str) -> ReferenceField:
    return ReferenceField(
        place=f"{place}.source.s3Location",
        stands_for="file",
        names=_uri,
        marks=(b'"s3Location"',),
        message="`{name}` is in a bucket that the provider which answers here cannot read.",
        hint="Send the bytes themselves, or ask for a model of Amazon Bedrock.",
    )


REFERENCES: Final = (
    *(
        _file(f"messages[].content[]{within}.{kind}")
        for within in ("", ".toolResult.content[]")
        for kind in ("image", "document", "video", "audio")
        if not (within and kind == "audio")
    ),
    ReferenceField(
        place="promptVariables",
        stands_for="history",
        names=whole_name,
        message="The prompt that these variables belong to is kept by Amazon Bedrock, and another provider answers here.",
        hint="Send the messages themselves, or ask for a model of Amazon Bedrock.",
    ),
)
