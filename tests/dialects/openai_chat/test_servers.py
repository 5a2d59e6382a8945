"""A server of the Chat wire is a data file: a new one needs no code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import segue
from segue.dialects.openai_chat.rules import variant_of
from segue.dialects.registry import CHAT_NAMES, NAMES, is_form_of

ACME = """
like = "openai_compatible"
thoughts = "reasoning"
silence = "empty"
result_names = true
options = { seed = "", top_k = "k" }
limit = "max_completion_tokens"
thinking = "switch"
switch = "think.mode"
always = { tier = "fast" }

[rules]
ids = { prefix = "acme_", max_length = 20 }
reasoning = { replay = "plain" }
"""
ADDRESS = """
[providers.acme]
title = "Acme"
dialects = ["acme"]
base_url = "https://api.acme.example/v1"
base_url_env = ["ACME_BASE_URL"]
key_env = ["ACME_API_KEY"]
docs = "https://docs.acme.example"
"""
PROGRAM = """
from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.providers.adapter import ChatRequest
from segue.providers.registry import default_registry
from segue.routing.route import parse_route, provider_of

route = parse_route("acme/one")
provider = provider_of(route, default_registry({}, environ={"ACME_API_KEY": "k"}, keyring=False))
called = ToolCall("a", "look", {"at": 1})
history = Conversation((
    user("Look."),
    Message("model", (Reasoning("Hm."), called), Origin("acme", "acme", model="one")),
    Message("tool", (ToolResult("a", "look", "A cat.", complete=True),)),
))
options = Options(model="one", max_tokens=9, seed=1, top_k=4, effort="high")
tools = (ToolSpec("look", "", {"type": "object", "properties": {}}),)
request = ChatRequest(model="one", conversation=history, tools=tools, options=options)
print(provider.capabilities.preview(request).body.decode())
"""


def test_a_new_provider_of_the_chat_wire_is_a_data_file_and_no_code(tmp_path: Path) -> None:
    package = tmp_path / "segue"
    # An installation with one file more, and one entry more in the list of addresses.
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(segue.__file__).parent, package, copy_function=os.symlink, ignore=ignored)
    (package / "dialects/openai_chat/servers/acme.toml").write_text(ACME)
    addresses = package / "providers/hosts/providers.toml"
    entries = addresses.read_text("utf-8")
    addresses.unlink()
    addresses.write_text(entries + ADDRESS, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    _, reply, result = body.pop("messages")
    assert body["max_completion_tokens"] == 9
    assert (body["k"], body["think"], body["tier"]) == (4, {"mode": "enabled"}, "fast")
    assert "seed" not in body
    assert (reply["content"], reply["reasoning"]) == ("", "Hm.")
    (call,) = reply["tool_calls"]
    assert call["id"].startswith("acme_")
    assert (result["name"], result["tool_call_id"], result["content"]) == ("look", call["id"], "A cat.")


@pytest.mark.parametrize("name", CHAT_NAMES)
def test_every_file_is_a_server_that_bears_its_name(name: str) -> None:
    assert name in NAMES
    assert is_form_of(name, "openai_chat")
    assert variant_of(name).name == name


def test_a_field_that_no_server_has_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "acme_with_a_typing_error.toml").write_text('thougths = "reasoning"\n')
    monkeypatch.setattr("segue.dialects.openai_chat.rules.SERVERS", tmp_path)
    with pytest.raises(msgspec.ValidationError, match="thougths"):
        variant_of("acme_with_a_typing_error")
