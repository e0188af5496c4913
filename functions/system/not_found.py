"""$default: answer 404 or 405 to whatever no other route takes."""

from interlock.edges.http import not_found_handler

handler = not_found_handler
