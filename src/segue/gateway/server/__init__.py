"""The gateway on a port: processes, HTTP, WebSockets, the log."""
