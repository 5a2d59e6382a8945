"""Single blocks as a target takes them: texts, media, citations, results, and the fields of other wires."""
