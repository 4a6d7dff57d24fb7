"""Text: sanitize what comes from outside, format values, HTML cards, US addresses, YAML as plain data."""
