"""What an epoch changed: changes, their journal, the delta that publishes them."""
