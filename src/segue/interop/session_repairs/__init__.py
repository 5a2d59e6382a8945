"""Repairs of session files in their own format, one module for each program: what it cannot resume, and the smallest edit."""
