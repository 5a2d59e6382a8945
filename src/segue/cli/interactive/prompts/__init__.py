"""What is asked at the keyboard: the input line, pickers, questions, secrets."""
