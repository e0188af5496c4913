"""The database's tables, and how a connection to it is set up."""

from __future__ import annotations

import sqlite3
from pathlib import Path

FORMAT = 1
"""The format of the tables, kept in the database's ``user_version``."""

MEMORY = Path(":memory:")

_TABLES = """
CREATE TABLE items (
    pk TEXT NOT NULL, sk TEXT NOT NULL,
    g1pk TEXT, g1sk TEXT, g2pk TEXT, g2sk TEXT, expires INTEGER,
    data TEXT NOT NULL, raw BLOB
);
CREATE UNIQUE INDEX items_key ON items (pk, sk);
CREATE INDEX items_index1 ON items (g1pk, g1sk) WHERE g1pk IS NOT NULL;
CREATE INDEX items_index2 ON items (g2pk, g2sk) WHERE g2pk IS NOT NULL;
CREATE INDEX items_expiring ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE changes (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    pk TEXT NOT NULL, sk TEXT NOT NULL,
    new_data TEXT NOT NULL, new_raw BLOB, old_data TEXT, old_raw BLOB
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL, visible_at INTEGER NOT NULL, receives INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL
);
CREATE INDEX messages_due ON messages (queue, visible_at);
"""


def connect(path: Path, *, cache_kib: int, query_only: bool = False) -> sqlite3.Connection:
    """Open the database with a page cache of at most ``cache_kib`` KiB. The caller keeps threads apart."""
    connection = sqlite3.connect(
        path, timeout=5, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
        connection.execute("PRAGMA temp_store = MEMORY")
        if query_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, *, durable: bool) -> None:
    """Make the tables if they are not there. Raises sqlite3.Error when the file is not a database of ours."""
    try:
        if durable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_autocheckpoint = 2000")
            connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
        elif found != FORMAT:
            raise sqlite3.DatabaseError(f"its format is {found}, this program knows {FORMAT}")
    except sqlite3.Error:
        connection.close()
        raise
