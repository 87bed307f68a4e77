"""`python -m hayase`: the `hayase` command."""

from __future__ import annotations

from hayase.cli.main import main

if __name__ == "__main__":
    main()
