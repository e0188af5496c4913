"""The table's change feed: copy events to ledger rows, send messages."""

from interlock.edges.batch import stream_handler

handler = stream_handler()
