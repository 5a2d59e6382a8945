"""Turns with the Anthropic SDK: the whole history, a thread, the tool runner of a thread, and one tool runner for each turn."""

from anthropic import Anthropic, beta_tool
from turns import DESCRIPTION, KEY, SCHEMA, URL, Take, call, read_note, serve

client = Anthropic(base_url=URL, api_key=KEY, max_retries=0)
TOOL = {"name": "read_note", "description": DESCRIPTION, "input_schema": SCHEMA}
RUN = beta_tool(read_note, name="read_note", description=DESCRIPTION, input_schema=SCHEMA)
THINKING = {"type": "enabled", "budget_tokens": 2000}


def said(reply, tokens: list[int]) -> str:
    usage = reply.usage
    tokens.append(
        usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    )
    return "".join(block.text for block in reply.content if block.type == "text")


def begin(model: str, keeps: str) -> Take:
    settings = {"model": model, "max_tokens": 4000, "system": "Be brief.", "thinking": THINKING}
    thread = client.beta.messages.thread(tools=[RUN if keeps == "thread runner" else TOOL], **settings)
    history: list = []

    def send(new: dict):
        if keeps == "thread":
            return thread.send(new)
        if keeps == "thread streamed":
            with thread.stream(new) as stream:
                return stream.get_final_message()
        history.append(new)
        if keeps == "whole streamed":
            with client.beta.messages.stream(messages=history, tools=[TOOL], **settings) as stream:
                reply = stream.get_final_message()
        else:
            reply = client.beta.messages.create(messages=history, tools=[TOOL], **settings)
        history.append({"role": "assistant", "content": reply.content})
        return reply

    def by_hand(prompt: str, tokens: list[int]) -> str:
        new = {"role": "user", "content": prompt}
        while True:
            reply = send(new)
            text = said(reply, tokens)
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": call(block.input)}
                for block in reply.content
                if block.type == "tool_use"
            ]
            if not results:
                return text
            new = {"role": "user", "content": results}

    def by_thread_runner(prompt: str, tokens: list[int]) -> str:
        thread.append({"role": "user", "content": prompt})
        return [said(reply, tokens) for reply in thread.tool_runner()][-1]

    def by_runner(prompt: str, tokens: list[int]) -> str:
        history.append({"role": "user", "content": prompt})
        runner, text = client.beta.messages.tool_runner(messages=history, tools=[RUN], **settings), ""
        for reply in runner:
            text = said(reply, tokens)
            history.append({"role": "assistant", "content": reply.content})
            if (results := runner.generate_tool_call_response()) is not None:
                history.append(results)
        return text

    return {"thread runner": by_thread_runner, "runner": by_runner}.get(keeps, by_hand)


serve(begin)
