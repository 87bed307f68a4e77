"""Spans: several epochs, one after the other, inside one Spark job."""
