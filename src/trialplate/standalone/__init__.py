"""Programs that travel inside a bundle: standard library only, no code shared with this package."""
