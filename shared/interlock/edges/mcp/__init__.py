"""MCP: the protocol (rpc, revisions, protocol, transport), and what the bus offers through it."""
