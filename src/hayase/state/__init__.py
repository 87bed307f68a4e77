"""State stores: named maps of bytes with typed views, their changelog, snapshots and restore."""
