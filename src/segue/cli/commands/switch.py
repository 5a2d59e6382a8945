"""`segue switch`: changes the model of an agent that runs through the gateway, from its next turn on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.command_table import add_set
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """Changes the model of a conversation that runs through the gateway, from its next turn on. The agent does not
notice. CONVERSATION is an id that `segue gateway ps` shows, or "last" for the one used last."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="CONVERSATION")
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default="", help="provider/model, an alias or a profile"
    )
    parser.add_argument(
        "--back", action="store_true", help="let the name that the client asks for decide again"
    )
    parser.add_argument(
        "--session",
        action="store_true",
        help="switch all conversations of its session: subagents and titles, and those that begin later",
    )
    parser.add_argument("--url", default="", help="of a gateway elsewhere; its key is in SEGUE_GATEWAY_KEY")
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.cli.gateway_control import open_gateway_control  # noqa: PLC0415
    from segue.errors import UsageError  # noqa: PLC0415

    if bool(arguments.model) == arguments.back:
        raise UsageError("Name either a MODEL or --back.", hint="segue switch last openai/gpt-4.1")
    with open_gateway_control(arguments.url, arguments.sets) as control:
        info = control.switch(arguments.conversation, arguments.model, session=arguments.session)
    decides = f"{info.switched} answers" if info.switched else f'"{info.asked}" decides again'
    what = f"The session of {info.id}" if arguments.session else f"Conversation {info.id}"
    print_status(f"{what}: {decides} from the next turn on.")
    return Exit.OK
