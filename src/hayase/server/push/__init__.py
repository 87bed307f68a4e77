"""Push queries: rows as they come, until their reader has enough."""
