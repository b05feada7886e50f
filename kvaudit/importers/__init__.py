"""What other programs wrote, read into kvaudit's own terms: engine logs, and the page of rules."""
