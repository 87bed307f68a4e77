"""The JSON objects that statements answer, by their `@type`."""
