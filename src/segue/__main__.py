"""`python -m segue` is the command `segue`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current folder: it may be anybody's, and nothing is imported from it

from segue.cli import main

sys.exit(main())
