"""A tool turn with boto3's Converse, with thinking: streamed, then whole behind the results. Requests are signed."""

import json

import boto3
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = boto3.client(
    "bedrock-runtime",
    endpoint_url=URL,
    region_name="us-east-1",
    aws_access_key_id=KEY,
    aws_secret_access_key=KEY,
)
TOOL = {"toolSpec": {"name": "read_note", "description": DESCRIPTION, "inputSchema": {"json": SCHEMA}}}
FIXED = {
    "modelId": MODEL,
    "toolConfig": {"tools": [TOOL]},
    "inferenceConfig": {"maxTokens": 4000},
    "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
}


def streamed(history: list) -> list:
    """The content of a reply, from the pieces of its blocks."""
    blocks: dict[int, dict] = {}
    pieces: dict[int, str] = {}
    for event in client.converse_stream(messages=history, **FIXED)["stream"]:
        if start := event.get("contentBlockStart"):
            blocks[start["contentBlockIndex"]] = {"toolUse": start["start"]["toolUse"]}
        if delta := event.get("contentBlockDelta"):
            index, given = delta["contentBlockIndex"], delta["delta"]
            if "text" in given:
                block = blocks.setdefault(index, {"text": ""})
                block["text"] += given["text"]
            if "toolUse" in given:
                pieces[index] = pieces.get(index, "") + given["toolUse"]["input"]
            if "reasoningContent" in given:
                thought = blocks.setdefault(index, {"reasoningContent": {"reasoningText": {"text": ""}}})
                for name, value in given["reasoningContent"].items():
                    held = thought["reasoningContent"]["reasoningText"]
                    held[name] = held.get(name, "") + value
    for index, text in pieces.items():
        blocks[index]["toolUse"]["input"] = json.loads(text or "{}")
    return [blocks[index] for index in sorted(blocks)]


def ask(history: list) -> str:
    answered = any("toolResult" in block for block in history[-1]["content"])
    if answered:
        content = client.converse(messages=history, **FIXED)["output"]["message"]["content"]
    else:
        content = streamed(history)
    history.append({"role": "assistant", "content": content})
    calls = [block["toolUse"] for block in content if "toolUse" in block]
    if not calls:
        return "".join(block.get("text", "") for block in content) or "(empty)"
    save(history)
    results = [
        {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": read_note(**call["input"])}]}}
        for call in calls
    ]
    history.append({"role": "user", "content": results})
    return ""


run(ask, [*load(), {"role": "user", "content": [{"text": PROMPT}]}])
