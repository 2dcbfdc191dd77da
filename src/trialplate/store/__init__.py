"""Evidence on disk: the journal, traces, the campaign folder, and the check that nothing was changed or lost."""
