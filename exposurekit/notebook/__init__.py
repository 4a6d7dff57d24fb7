"""The notebook: the ``%exposure`` magic and the ``df.exposure`` accessor.

::

    parser      parse a line after %exposure    namespace    the exposure or history that it reads
    commands    the verbs                       completion   Tab completion
    magic       registration in IPython         accessor     the same questions as methods of a table
"""
