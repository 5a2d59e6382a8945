"""A wire as its server sees it: paths and keys, lists, what requests refer to, and replies that a server keeps."""
