"""Exposure of people on people-search sites: a notebook toolkit, and the service behind it."""

__version__ = "0.1.0"
