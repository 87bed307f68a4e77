"""Planning epochs: what each reads, from which offset to which, and who may."""
