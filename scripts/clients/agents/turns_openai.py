"""Turns with the OpenAI SDK: the whole history, a conversation, the reply before, and a WebSocket."""

from openai import OpenAI
from turns import DESCRIPTION, KEY, SCHEMA, URL, Take, call, serve

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, max_retries=0)
FUNCTION = {"name": "read_note", "description": DESCRIPTION, "parameters": SCHEMA, "strict": False}
SETTINGS = {
    "instructions": "Be brief.",
    "tools": [{"type": "function", **FUNCTION}],
    "reasoning": {"effort": "high"},
}
UNSTORED = {"store": False, "include": ["reasoning.encrypted_content"]}
ENDS = ("response.completed", "response.failed", "response.incomplete")


def begin(model: str, keeps: str) -> Take:
    is_stored = keeps in ("conversation", "reply before", "socket")
    settings = {"model": model, **SETTINGS, **({} if is_stored else UNSTORED)}
    held = {"conversation": client.conversations.create().id} if keeps == "conversation" else {}
    socket = client.responses.connect().enter() if keeps.startswith("socket") else None
    history: list = []

    def over_socket(new: list):
        socket.send({"type": "response.create", "input": new, **settings, **held})
        for event in socket:
            if event.type == "error":
                raise RuntimeError(event.to_json())
            if event.type in ENDS:
                return event.response
        raise RuntimeError("the connection ended")

    def send(new: list):
        if keeps.startswith("whole"):
            history.extend(new)
            if keeps == "whole streamed":
                with client.responses.stream(input=history, **settings) as stream:
                    reply = stream.get_final_response()
            else:
                reply = client.responses.create(input=history, **settings)
            history.extend(item.model_dump(exclude_none=True) for item in reply.output)
            return reply
        reply = over_socket(new) if socket else client.responses.create(input=new, **settings, **held)
        if keeps != "conversation":
            held["previous_response_id"] = reply.id
        return reply

    def take(prompt: str, tokens: list[int]) -> str:
        new: list = [{"role": "user", "content": prompt}]
        while True:
            reply = send(new)
            tokens.append(reply.usage.input_tokens)
            new = [
                {"type": "function_call_output", "call_id": item.call_id, "output": call(item.arguments)}
                for item in reply.output
                if item.type == "function_call"
            ]
            if not new:
                return reply.output_text

    return take


serve(begin)
