"""Conversations brought from one provider to another: converted as files, streams of cases, or judged by the doctor."""
