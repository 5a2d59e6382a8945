"""What clients keep at a server by its id: replies, conversations, cached contents."""
