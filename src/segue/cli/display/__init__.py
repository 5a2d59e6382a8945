"""How output is shown on a terminal: colours, widths, Markdown, status lines."""
