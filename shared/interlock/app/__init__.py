"""Use cases, grouped by noun: load, decide, write, view. No HTTP and no AWS here."""
