"""The sandbox behind `ek.demo()`: the service with invented people and an invented web, on loopback.

::

    demo        start and use the sandbox
    backend     the embedded service: operator, worker, clock and web
    collector   daily collection into the history
    cache       finished demos in the user's cache directory
    evaluation  precision and recall against the truth of the invented web
    world/      invented people, people-search sites, pages and a search engine
"""
