"""The sockets: the only input and output below the runtime. A transport carries one request and brings one answer."""
