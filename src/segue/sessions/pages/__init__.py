"""A session as a page to read: Markdown and HTML."""
