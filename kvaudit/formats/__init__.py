"""Arrow files <-> core objects. The only package that reads files; FORMAT.md is its contract."""
