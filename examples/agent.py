"""An agent for a shop: typed tools, dependencies, a checked answer, many users. Run: python examples/agent.py"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from segue import Agent, AskAgain, Context, default_registry
from segue.emulators import Call, Emulator, Reply, Say, ScriptedResponder, serve


@dataclass
class Shop:
    """What a request needs."""

    customer: str
    orders: dict[int, str]


@dataclass
class Ticket:
    """What the shop does about it."""

    order: int
    action: Literal["wait", "refund"]


def where(order: Annotated[int, Meta(ge=1, description="As on the bill.")], context: Context[Shop]) -> str:
    """Where an order is."""
    return context.deps.orders.get(order, "unknown")


def known(ticket: Ticket, context: Context[Shop]) -> Ticket:
    if ticket.order not in context.deps.orders:
        raise AskAgain(f"{context.deps.customer} has no order {ticket.order}.")
    return ticket


support = Agent(
    "openai/gpt-4.1", instructions="Be brief.", tools=[where], output=Ticket, check=known, deps=Shop
)


async def main() -> None:
    # Strict emulators answer here. With a key of your own, drop everything about them.
    ticket = '{"order": %d, "action": "wait"}'
    words = Call("where", {"order": 7}), Say(ticket % 9), Say(ticket % 7)
    emulator = Emulator(responder=ScriptedResponder([Reply(pieces=(word,)) for word in words]))
    with serve(emulator=emulator) as api:
        address = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": f"{api.url('openai')}/v1"}
        shop, providers = Shop("Ann", {7: "in Oslo"}), default_registry(environ=address)
        answer = await support.run("Where is it?", deps=shop, providers=providers)
        print(answer.output, answer.exchanges)


asyncio.run(main())

# Prints:
# Ticket(order=7, action='wait') 2
