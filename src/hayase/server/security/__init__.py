"""Who may do what: users and their roles, addresses and origins of requests, limits."""
