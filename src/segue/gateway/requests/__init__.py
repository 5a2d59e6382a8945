"""Requests as they come in: bodies, forms, budgets of bytes, admission, and errors as a client reads them."""
