"""Conformance suites for those who write providers, stores and transports of their own."""
