"""One module a rule: pure functions from evidence to findings."""
