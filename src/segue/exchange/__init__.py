"""One request and its reply, with all that may go wrong: attempts over a routing, remedies, corrections, charge."""
