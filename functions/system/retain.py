"""No route, once a day: move ended lineages of projects with `retention_days` to the archive."""

from interlock.edges.batch import schedule_handler

handler = schedule_handler("retain")
