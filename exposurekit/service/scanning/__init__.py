"""Scanning: search the sites and the web for a person, match what they list, and send opt-outs."""
