"""The published API as both wings know it. No input or output, and nothing of the house but errors."""
