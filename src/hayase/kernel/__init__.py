"""What operators do to records: one operator a file, the row form and the column form side by side."""
