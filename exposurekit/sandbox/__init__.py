"""The sandbox behind `ek.demo()`: the service with invented people and an invented web, on loopback.

::

    demo        the sandbox as its user holds it, and how it starts
    backend     the embedded service: operator, worker, clock and web
    collector   what the history collects each day
    cache       sandboxes that were made before, in the user's cache
    evaluation  how well the matcher's decisions agree with the truth of the invented web
    world/      invented people, people-search sites, pages and a search engine
"""
