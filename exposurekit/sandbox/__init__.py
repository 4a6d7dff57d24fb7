"""The sandbox behind `ek.demo()`: the service with invented people and an invented web, on loopback.

::

    demo        start and use the sandbox
    backend     the embedded service: operator, worker, clock and web
    daily_collection  a history's run of each day
    simulated_person  who does by hand what the service leaves to a person
    cache       finished demos in the user's cache directory
    evaluation  precision and recall against the truth of the invented web
    world/      invented people, people-search sites, pages and a search engine
"""
