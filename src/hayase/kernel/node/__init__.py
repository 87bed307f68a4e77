"""What a node of a task is in each form, and what passes between nodes."""
