"""Fitting a history to a target: pure functions from a conversation to what one provider accepts."""
