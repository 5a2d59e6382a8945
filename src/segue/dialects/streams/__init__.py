"""Streams of replies as bytes: frames in and out, chunks that are alike, and what cannot be read."""
