"""The state of a bundle on this machine."""
