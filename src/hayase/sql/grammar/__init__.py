"""From text to syntax trees: tokens, the grammar, variables, and errors with line and column."""
