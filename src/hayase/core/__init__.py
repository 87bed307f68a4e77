"""What everything else stands on: records, time, windows, names, config, errors, metrics. Imports nothing of ours."""
