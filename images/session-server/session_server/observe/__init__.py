"""What the server says about itself: logs and metrics. Never message content above debug level."""
