"""One question, one answer: stdout carries the answer and nothing else."""
