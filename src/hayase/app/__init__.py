"""The facade: an application's life cycle, its progress and its stores."""
