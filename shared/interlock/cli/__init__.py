"""The command line: Typer commands over the operations table, HTTP by the standard library."""
