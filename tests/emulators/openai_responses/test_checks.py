from __future__ import annotations

from emulators.openai_responses.requests import SCHEMA, USER, body, call, judge, output, reasoning, said


def test_the_valid_transcript_of_the_rulebook_is_accepted() -> None:
    judge.accepts(
        body(
            USER,
            reasoning(id="rs_01"),
            said(id="msg_01", status="completed", phase="commentary"),
            call("call_a1", id="fc_01"),
            call("call_a2", id="fc_02"),
            output("call_a1"),
            output("call_a2", "Error: timeout contacting weather service"),
            reasoning(id="rs_02", summary=[]),
            said(id="msg_02", status="completed", phase="final_answer"),
            USER,
            store=False,
            include=["reasoning.encrypted_content"],
            stream=True,
            parallel_tool_calls=True,
            tool_choice="auto",
            instructions="You are terse.",
            reasoning={"effort": "medium", "summary": "auto"},
            tools=[{"type": "function", "name": "get_weather", "strict": True, "parameters": SCHEMA}],
        )
    )
