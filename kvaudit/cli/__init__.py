"""The commands, and the one place where exceptions become exit codes."""
