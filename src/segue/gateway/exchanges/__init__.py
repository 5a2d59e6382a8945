"""One request of a client, asked: the members that it may go to, attempts, and the reply in the client's wire."""
