"""`hayase demo`: generated orders, users and products, the e-commerce example on Spark, and a check of its results."""
