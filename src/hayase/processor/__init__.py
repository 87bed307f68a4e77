"""Contracts that user code implements: timestamp extractors and exception handlers."""
