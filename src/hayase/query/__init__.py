"""Interactive queries: stores read from any process while the application runs."""
