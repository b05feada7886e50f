"""Report -> text or JSON. Draws nothing that the Report does not say."""
