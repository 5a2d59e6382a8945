"""What several wires share in reading and writing requests: messages, settings, tools, shapes, fields of one wire alone."""
