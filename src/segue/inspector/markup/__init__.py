"""What pages are made of: elements, the frame of every page, charts, marks, figures as text."""
