"""The part of protobuf that Hayase uses; protobuf itself has no types."""
