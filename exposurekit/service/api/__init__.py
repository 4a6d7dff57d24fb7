"""The HTTP API: requests to handlers to responses.

::

    server      run it                              app            routes, from the operations table
    middleware  headers, errors, access log         auth           who is calling
    requests    a request's values                  parameters     typed and validated values
    handlers    the eight operations                responses      JSON or XML
    schemas     response schemas                    openapi        the OpenAPI document
    cache       encoded responses                   rate_limits    requests per key and address
    scan_wait   requests that wait for a scan
"""
