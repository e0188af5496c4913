"""Queue routing: jobs that ended and whose rules create others."""

from interlock.edges.batch import queue_handler

handler = queue_handler("routing")
