"""The HTTP layer: routes, errors, limits. Thin over `core`, `tito`, `engine` and `wire`."""
