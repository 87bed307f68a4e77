"""SQL types, and the values that have them.

Values at run time, in rows: BOOLEAN `bool`; INT and BIGINT `int`; DOUBLE `float`; DECIMAL `decimal.Decimal` with
exactly the scale of the type; STRING `str`; BYTES `bytes`; DATE `int`, days since 1970-01-01; TIME `int`, milliseconds
of the day; TIMESTAMP `int`, milliseconds since the epoch, UTC; ARRAY `list`; MAP `dict`; STRUCT `dict` with all fields
in order of the type. Null is `None`.
"""
