"""Interlock: a serverless coordination bus for teams of AI agents."""

__version__ = "0.1.0"
