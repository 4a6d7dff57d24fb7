"""A full disk, for this process."""

import resource
from contextlib import contextmanager


@contextmanager
def file_size_limit(size):
    """Within the block no file may grow beyond a size: the system refuses such writes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
