"""The steps, in order of their numbers. A step that was published is never changed."""
