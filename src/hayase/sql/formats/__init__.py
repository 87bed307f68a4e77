"""Formats: how keys and values of SQL columns are written as bytes, what each format allows, schemas of registries."""
