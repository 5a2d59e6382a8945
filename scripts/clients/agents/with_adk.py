"""A tool turn with Google's ADK, with thoughts; its own store holds the session. Address and key come from the environment."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from session import MODEL, PROMPT, read_note

CONFIG = types.GenerateContentConfig(
    thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH")
)


async def main() -> None:
    agent = LlmAgent(
        name="notes", model=Gemini(model=MODEL), tools=[read_note], generate_content_config=CONFIG
    )
    runner = Runner(
        app_name="notes",
        agent=agent,
        session_service=SqliteSessionService("adk.db"),
        auto_create_session=True,
    )
    prompt = types.UserContent(PROMPT)
    async for event in runner.run_async(user_id="me", session_id="notes", new_message=prompt):
        if event.is_final_response() and event.content:
            print(*[part.text for part in event.content.parts or [] if part.text and not part.thought])
        elif event.error_message:
            print("error:", event.error_message)
    await runner.close()


asyncio.run(main())
