"""``%exposure``: the questions as one line of a notebook. Keeps no key, and takes none on the line.

::

    parser      a line -> what it asks for      namespace    whose tables it is about
    commands    what there is to ask            completion   what a line may go on with
    magic       IPython's side of it            accessor     the same from a table, as df.exposure
"""
