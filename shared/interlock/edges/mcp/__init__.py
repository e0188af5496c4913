"""MCP: the protocol (rpc, revisions, offers, protocol, transport), and what the bus offers through it."""
