"""A tool turn with Microsoft's agent-framework, over Chat Completions; its own store holds the session. Address and key come
from the environment."""

import asyncio

from agent_framework import Agent, FileHistoryProvider
from agent_framework.openai import OpenAIChatCompletionClient
from session import MODEL, PROMPT, read_note


async def main() -> None:
    agent = Agent(
        OpenAIChatCompletionClient(MODEL),
        tools=[read_note],
        context_providers=[FileHistoryProvider("history")],
        require_per_service_call_history_persistence=True,
    )
    print(await agent.run(PROMPT, session=agent.create_session(session_id="notes")))


asyncio.run(main())
