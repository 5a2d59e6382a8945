"""Tools that every coding chat wants: files, search, a shell and the web, confined to a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.tools.definition import Tool
    from segue.tools.sandbox.policy import SandboxMode
    from segue.tools.sandbox.sandbox import Sandbox


def builtin_tools(
    root: str | Path,
    *,
    outputs: str | Path | None = None,
    allow_private: bool = False,
    max_characters: int = 30_000,
    sandbox: Sandbox | SandboxMode = "workspace",
) -> tuple[Tool, ...]:
    """read_file, write_file, edit_file, list_dir, search, run_shell and fetch_url for the workspace at `root`.

    Output beyond `max_characters` is kept under `outputs`, by default in the user's data directory.
    `allow_private` lets fetch_url reach this machine and its own network. `sandbox`: what commands run in.
    """
    from segue.tools.builtin.fetch import fetch_tool  # noqa: PLC0415
    from segue.tools.builtin.files import file_tools  # noqa: PLC0415
    from segue.tools.builtin.output_limit import OutputLimit  # noqa: PLC0415 - a chat without these tools pays nothing
    from segue.tools.builtin.search import search_tools  # noqa: PLC0415
    from segue.tools.builtin.shell import shell_tool  # noqa: PLC0415
    from segue.tools.builtin.workspace import Workspace  # noqa: PLC0415
    from segue.tools.sandbox.sandbox import Sandbox  # noqa: PLC0415

    workspace = Workspace(root)
    kept = OutputLimit(None if outputs is None else Path(outputs), max_characters)
    held = Sandbox(workspace.root, sandbox) if isinstance(sandbox, str) else sandbox
    return (
        *file_tools(workspace, kept),
        *search_tools(workspace, kept),
        shell_tool(workspace, kept, held),
        fetch_tool(kept, allow_private=allow_private),
    )
