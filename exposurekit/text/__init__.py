"""Text: sanitize untrusted text, format values, HTML cards, US addresses, YAML as plain data."""
