"""Queue barrier: jobs whose upstreams may have moved, and plans that become real."""

from interlock.edges.batch import queue_handler

handler = queue_handler("barrier")
