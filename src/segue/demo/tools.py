"""The tools of the story: tiny functions of their arguments, so that every run tells the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.tools import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SERVICES = {"checkout": (180, 2400), "search": (95, 97), "cart": (60, 61)}
_DEPLOYS = {"839": "11:05", "840": "11:58", "841": "13:58"}
_QUERIES = {"orders": [{"query": "SELECT total FROM cart_rows", "per_order": 40}]}
_CHANGES = {841: ["9c1e read totals row by row", "77d0 new button"], 840: ["51ab faster images"]}
_REGIONS = {"frankfurt": 2390, "dublin": 2410, "virginia": 2380, "oregon": 2405, "singapore": 2440}


def latency(service: str) -> dict[str, Any]:
    before, now = _SERVICES[service]
    return {"before_ms": before, "now_ms": now}


def deploys(since: str) -> dict[str, str]:
    return {deploy: at for deploy, at in _DEPLOYS.items() if at >= since}


def slow_queries(database: str) -> list[dict[str, Any]]:
    return _QUERIES[database]


def changes(deploy: int) -> list[str]:
    return _CHANGES[deploy]


def probe(region: str) -> dict[str, Any]:
    return {"ms": _REGIONS[region]}


def rollback(deploy: int) -> dict[str, Any]:
    return {"live": deploy, "at": "14:31", "checkout_ms": 185}


def _takes(name: str, kind: str, meaning: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind, "description": meaning}},
        "required": [name],
    }


TOOLS: Final[tuple[ToolSpec, ...]] = (
    ToolSpec(
        "latency",
        "The 95th percentile of a service's response times, before today's change and now, in milliseconds.",
        _takes("service", "string", "The name of the service, for instance checkout."),
    ),
    ToolSpec(
        "deploys",
        "The deploys since a time of today, each with its time.",
        _takes("since", "string", "A time such as 13:30."),
    ),
    ToolSpec(
        "slow_queries",
        "The queries that cost a database the most, and how often each runs for one order.",
        _takes("database", "string", "The name of the database."),
    ),
    ToolSpec(
        "changes",
        "The commits that a deploy brought, each with its first line.",
        _takes("deploy", "integer", "The number of the deploy."),
    ),
    ToolSpec(
        "probe",
        "Place one test order in a region and measure how long it takes, in milliseconds.",
        _takes("region", "string", "The city of the data centre."),
    ),
    ToolSpec(
        "rollback",
        "Make an earlier deploy live again. Changes production.",
        _takes("deploy", "integer", "The number of the deploy that is to be live."),
    ),
)

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "latency": latency,
    "deploys": deploys,
    "slow_queries": slow_queries,
    "changes": changes,
    "probe": probe,
    "rollback": rollback,
}


def run(call: ToolCall) -> ToolResult:
    """The result of a call. A failing tool raises nothing: its failure is a result that the model reads."""
    function = _FUNCTIONS.get(call.name)
    if function is None:
        return ToolResult(call.id, call.name, error=f"There is no tool {call.name}.")
    try:
        return ToolResult(call.id, call.name, output=function(**(call.arguments or {})))
    except (KeyError, TypeError) as error:
        return ToolResult(call.id, call.name, error=f"These arguments mean nothing to it: {error}.")
