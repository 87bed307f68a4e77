"""The JSON objects of answers, by their `@type`."""
