"""From the logical topology to what runs: serdes, partition counts, levels, bundles, forms."""
