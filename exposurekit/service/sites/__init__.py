"""People-search sites: definitions, their loader, selectors, and statistics of how each site behaves."""
