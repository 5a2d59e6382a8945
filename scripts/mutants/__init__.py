"""Mutants: one small change of the code at a time, to see whether a test notices it."""
