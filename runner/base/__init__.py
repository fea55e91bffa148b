"""What every layer may import: the vocabulary, the errors and the events. Nothing here does anything by itself."""
