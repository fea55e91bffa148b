"""From records to training samples: single turns, trimming and merging, leaves and hooks, the payload."""
