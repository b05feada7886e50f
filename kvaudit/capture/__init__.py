"""What an engine calls: one-call dumps, recorders, adapters."""
