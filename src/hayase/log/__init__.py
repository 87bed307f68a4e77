"""Topics: one protocol, two implementations (`embedded`, `kafka`)."""
