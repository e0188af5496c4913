"""Edges: parse, authenticate, call one use case, map errors; nothing else."""
