"""Findings: records, links, removals, candidates and alerts."""
