"""Agents of frameworks, each in a few lines; they run with the frameworks' own packages, not with ours."""
