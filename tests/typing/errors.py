"""What an error calls for, by its remedy: a closed list of words."""

from __future__ import annotations

from typing import Any, assert_never, assert_type

from segue import Chat
from segue.errors import ProviderError, RateLimitError, Remedy, SegueError


def advise(remedy: Remedy) -> str:
    match remedy:
        case "fix" | "log_in" | "pay":
            return "you"
        case "wait" | "go_elsewhere" | "shrink":
            return "the runtime"
        case "report":
            return "us"
        case _:
            assert_never(remedy)


async def ask(chat: Chat) -> str:
    try:
        return (await chat.send("Hello")).text
    except RateLimitError as error:
        assert_type(error.retry_after, float | None)
        return error.code
    except ProviderError as error:
        assert_type(error.status, int | None)
        assert_type(error.remedy, Remedy)
        return error.message
    except SegueError as error:
        assert_type(error.as_dict(), dict[str, Any])
        return f"{error.path}: {error.hint}"
