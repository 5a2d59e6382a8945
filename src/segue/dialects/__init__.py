"""The wires: each dialect is rules as data and pure functions for both directions; none knows another."""
