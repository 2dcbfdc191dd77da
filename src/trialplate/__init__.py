"""trialplate."""
