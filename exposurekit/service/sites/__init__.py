"""People-search sites: definitions, their loader, selectors, and scan statistics."""
