"""Queue lease: timers of leases, deadlines and starts that may have come due."""

from interlock.edges.batch import queue_handler

handler = queue_handler("lease")
