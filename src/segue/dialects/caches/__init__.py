"""What is kept from one request to the next: what was read, what was written, and tools."""
