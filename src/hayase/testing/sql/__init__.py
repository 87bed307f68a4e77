"""Scripts of SQL run in this process: statements take effect at once, ASSERT statements look at the results."""
