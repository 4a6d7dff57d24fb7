"""The invented web: people, people-search sites, pages and a search engine, on loopback."""
