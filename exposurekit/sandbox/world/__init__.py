"""The invented web: people, people-search sites, pages and a search engine, on loopback.

::

    world        all hosts together, and the truth   state         seed, clock, listings and requests
    people       invented people                     namesakes     people who share a name
    sites        the invented sites as data          listings      who is listed where
    search       how sites answer a search           templates     markup of listings
    pages        ordinary web pages                  search_engine a search engine for them
    opt_outs     removals from sites                 opt_out_forms their forms
    formats      how sites print names and phones    asgi          ASGI plumbing
    webhook_receiver  an integrator's webhook endpoint
    data_files   reads data/: names, site behaviour, pages and layouts, as YAML
    definitions/ the site definitions, as YAML
"""
