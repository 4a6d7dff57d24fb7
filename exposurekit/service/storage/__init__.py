"""Storage: tables, database sessions, encryption, leases and migrations."""
