"""Tools of Model Context Protocol servers, over stdio and streamable HTTP, through the official SDK."""
