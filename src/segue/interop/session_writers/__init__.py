"""Sessions written for other programs, one module for each: lines or a document that the program itself resumes."""
