"""The asyncio classes, and the source from which tools/gen-clients makes the blocking ones."""
