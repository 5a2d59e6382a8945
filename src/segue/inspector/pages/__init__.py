"""The pages: one module each, a function that makes a `Page` of what a viewer may see."""
