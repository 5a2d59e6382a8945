"""A tool turn with the Google Gen AI SDK, with thoughts."""

from google import genai
from google.genai import types
from session import DESCRIPTION, KEY, MODEL, PROMPT, SCHEMA, URL, load, read_note, run, save

client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=URL))
FUNCTION = types.FunctionDeclaration(name="read_note", description=DESCRIPTION, parameters_json_schema=SCHEMA)
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[FUNCTION])],
    thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH"),
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


def ask(history: list) -> str:
    contents = [types.Content.model_validate(one) for one in history]
    reply = client.models.generate_content(model=MODEL, contents=contents, config=CONFIG)
    history.append(reply.candidates[0].content.model_dump(mode="json", exclude_none=True))
    calls = reply.function_calls or []
    if not calls:
        return reply.text or "(empty)"
    save(history)
    results = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response={"output": read_note(**call.args)}
            )
        )
        for call in calls
    ]
    history.append(types.Content(role="user", parts=results).model_dump(mode="json", exclude_none=True))
    return ""


run(ask, [*load(), {"role": "user", "parts": [{"text": PROMPT}]}])
