"""The shared imagination of the suite."""
