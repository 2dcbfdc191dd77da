"""Package data: the page, its sections and its style sheet."""
