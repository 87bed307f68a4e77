"""Commands: statements that change something, in a topic of the log, carried out once and replayed at every start."""
