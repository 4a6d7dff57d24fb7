"""Scanning: search the sites and the web for a person, match what they list, and send opt-outs.

::

    scan         one scan of one person             site_scan    one site's part of it
    control      an invented person as a control    websearch    pages found by a search engine
    extraction   listings from a site's answer      html_text    text of a web page
    normalize    names, streets, phones             matching     is this listing this person?
    persist      save the results                   politeness   robots.txt, delays, concurrency
    optouts      submit a site's opt-out form       removal_job  the next step of a removal
    schedule     when the next scan is due
"""
