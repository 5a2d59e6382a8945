"""What a model reads about a tool, on every wire."""

from __future__ import annotations

import json

import pytest

from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import UNKNOWN
from segue.dialects.registry import DIALECTS, NAMES
from segue.transcript.policy import Policy
from segue.transcript.render import render

TOOLS = (
    ToolSpec(
        "read",
        "Reads one file of the project.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Relative to the project."},
                "lines": {"type": "integer", "description": "How many lines at most."},
            },
            "required": ["path"],
        },
    ),
    ToolSpec("stop", "Stops everything at once."),
)


@pytest.mark.requirement("Property 13")
@pytest.mark.parametrize("name", NAMES)
def test_names_descriptions_and_parameters_of_tools_arrive(name: str) -> None:
    dialect = DIALECTS[name]
    policy = Policy(tool_names=tuple(tool.name for tool in TOOLS))
    transcript = render(Conversation((user("?"),)), None, dialect.rules, policy)
    body = json.loads(dialect.encode_request(transcript, TOOLS, Options(model="m"), UNKNOWN).body)
    read = dialect.decode_request({"model": "m", **body}).tools
    assert [(tool.name, tool.description) for tool in read] == [
        (tool.name, tool.description) for tool in TOOLS
    ]
    parameters = read[0].parameters or {}
    assert parameters["properties"].keys() == {"path", "lines"}
    assert parameters["properties"]["path"]["description"] == "Relative to the project."
    assert parameters["properties"]["lines"]["type"].lower() == "integer"
    assert "path" in parameters["required"]
