"""ANY /mcp: the Model Context Protocol, every tool on one route."""

from interlock.edges.mcp.serve import mcp_handler

handler = mcp_handler
