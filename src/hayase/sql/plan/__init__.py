"""Logical plans as topologies of the DSL. One file an operator family."""
