from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, model, user
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.registry import DIALECTS, WIRES
from segue.providers.adapter import ChatRequest
from segue.providers.requests.request_writer import KeptPlans, RequestWriter
from segue.transcript.policy import Policy
from strategies.histories import conversations
from strategies.provider_places import WEATHER

HELLO = Conversation().append(user("Hello."))


def writer(wire: str = "openai_chat") -> RequestWriter:
    return RequestWriter(wire, "somewhere", "https://host.test/v1", KeptPlans())


def asked(conversation: Conversation, session: str = "s", ledger: Ledger | None = None) -> ChatRequest:
    return ChatRequest(model="m", conversation=conversation, session=session, tools=(WEATHER,), ledger=ledger)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
@settings(max_examples=25)
def test_a_session_gets_what_a_fresh_start_would_get_however_it_goes_on(
    wire: str, data: st.DataObject
) -> None:
    whole = data.draw(conversations(DIALECTS[wire].rules))
    kept, options = writer(wire), Options(model="m", stream=True)
    for length in range(1, len(whole.messages) + 1):
        so_far = Conversation(whole.messages[:length], whole.system, whole.minted)
        told = kept.write(asked(so_far), options, UNKNOWN)
        fresh = writer(wire).write(asked(so_far, session=""), options, UNKNOWN)
        assert msgspec.json.decode(told.body) == msgspec.json.decode(fresh.body)
        assert (told.repairs, told.origin, told.made_under) == (fresh.repairs, fresh.origin, fresh.made_under)


def test_only_so_many_sessions_are_kept_and_the_oldest_goes_first() -> None:
    kept = writer()
    kept.plans = KeptPlans(100_000)
    target = Origin("openai_chat", "somewhere", "https://host.test/v1", "m")
    for number in range(100):
        kept.write(asked(HELLO, session=f"s{number}"), Options(model="m"), UNKNOWN)
        kept.write(asked(HELLO, session="busy"), Options(model="m"), UNKNOWN)
        assert kept.plans.held <= 100_000
    assert kept.plans.get(("busy", target)) is not None
    assert kept.plans.get(("s99", target)) is not None
    assert kept.plans.get(("s0", target)) is None


def test_a_request_may_bring_the_place_where_its_plan_is_kept() -> None:
    kept, own = writer(), KeptPlans()
    kept.write(structs.replace(asked(HELLO), plans=own), Options(model="m"), UNKNOWN)
    assert own.held
    assert not kept.plans.held


def test_no_session_is_kept_for_those_who_name_none() -> None:
    kept = writer()
    kept.write(asked(HELLO, session=""), Options(model="m"), UNKNOWN)
    assert not kept.plans.held


def test_tools_are_part_of_what_seals_are_bound_to_unless_somebody_knows_better() -> None:
    def made_under(request: ChatRequest) -> str:
        card = ModelCard(bound_seals=True)
        return writer("anthropic").write(request, Options(model="m"), card).made_under

    request = asked(HELLO.append(model("Hi."), user("More.")))
    known = structs.replace(request, policy=Policy(settings_fingerprint="mine", tool_names=("get_weather",)))
    assert made_under(request)
    assert made_under(request) != made_under(structs.replace(request, tools=()))
    assert made_under(known) == made_under(structs.replace(known, tools=()))
