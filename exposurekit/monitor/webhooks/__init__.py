"""The webhook inbox: receive, verify, store, parse, ingest."""
