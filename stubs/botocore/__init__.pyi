"""The part of botocore that Hayase uses; botocore itself has no types."""
