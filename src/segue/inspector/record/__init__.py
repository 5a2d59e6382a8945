"""What is recorded of requests and conversations, and by whom."""
