"""Repairs and losses: the figures of all pages are sums of those of the requests."""

from __future__ import annotations

from inspector.story import Agent, Session, Stage


def test_rows_and_totals_of_repairs_agree(stage: Stage, agent: Agent, session: Session) -> None:
    start = session.json("/.json")
    for count in ("repairs", "losses"):
        assert start["figures"][count] == sum(row.get(count, 0) for row in start["conversations"])
    one = session.json(f"/c/{agent.conversation}.json")["conversation"]
    requests = session.json(f"/c/{agent.conversation}/requests.json")["requests"]
    repairs = [repair for request in requests for repair in request["repairs"]]
    assert one["repairs"] == len(repairs) > one["distinct_repairs"] > 0
    row = next(row for row in start["conversations"] if row["id"] == agent.conversation)
    assert (row["repairs"], row["losses"]) == (one["repairs"], one["losses"])


def test_each_page_words_a_loss_as_one_of_the_repairs(stage: Stage, agent: Agent, session: Session) -> None:
    one = session.json(f"/c/{agent.conversation}.json")["conversation"]
    said = f"{one['repairs']} repairs, {one['losses']} of them losses"
    assert (
        f"{said}, in all requests (at {one['distinct_repairs']} distinct places)"
        in session.get(f"/c/{agent.conversation}")[2].decode()
    )
    assert said in session.get(f"/c/{agent.conversation}/requests")[2].decode()
    requests = session.json(f"/c/{agent.conversation}/requests.json")["requests"]
    most = max(requests, key=lambda request: len(request["repairs"]))
    page = session.get(f"/r/{most['id']}")[2].decode()
    assert f"<h3>{len(most['repairs'])} repairs</h3>" in page and "of them losses" in page
