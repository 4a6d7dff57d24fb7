"""Outgoing HTTP: allowed addresses, requests, bounded responses and the client."""
