"""Pull queries: answers from what is kept now."""
