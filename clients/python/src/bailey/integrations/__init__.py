"""Bailey as a tool of agent frameworks; each module needs its framework and nothing else does."""
