"""Decisions without I/O: values in, values out. Time and ids are passed in."""
