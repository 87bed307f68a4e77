"""The shell of the SQL server: `hayase sql`."""
