"""Matching: whether a listing, its name and its locations are a person's."""
