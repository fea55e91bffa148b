"""Stands in for the package of the official engine image."""
