"""One HTML file that stands alone: opens offline, loads nothing, sends nothing."""
