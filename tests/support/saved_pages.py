"""Pages that a person saved with a browser."""


def saved_page(text, address):
    """A page as Chromium saves it as a single file."""
    lines = [
        *("From: <Saved by Blink>", f"Snapshot-Content-Location: {address}"),
        'Content-Type: multipart/related; type="text/html"; boundary="--a1"',
        *("", "", "----a1", "Content-Type: text/html", f"Content-Location: {address}", ""),
        *(f"<html><body>{text}</body></html>", "----a1--", ""),
    ]
    return "\r\n".join(lines)
