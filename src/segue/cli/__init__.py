"""The command line: one module per command, loaded when it is used.

Results go to stdout and everything else to stderr. The exit codes are listed in `segue.cli.exit_codes`.
"""

from segue.cli.main import main

__all__ = ["main"]
