"""Tools of nodes in column form: order, groups, keys, compiled expressions, Python functions over a batch."""
