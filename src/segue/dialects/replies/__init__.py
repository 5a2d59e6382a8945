"""What several wires share in reading and writing replies: calls, counts, reasons of an end, citations, headers."""
