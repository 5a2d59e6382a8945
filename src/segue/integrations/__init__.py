"""Thin layers for frameworks and engines, one module each. Each is loaded by those who use it, and needs its framework installed."""
