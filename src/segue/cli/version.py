"""The version, written down: looking it up among the installed packages takes longer than all the rest of --version."""

VERSION = "0.1.0"
