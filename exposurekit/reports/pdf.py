"""A page as a PDF, printed by a browser that is on the machine: no other program draws its charts. Sends nothing."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from exposurekit.errors import ConfigurationError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PATIENCE_S = 120
_DRAWS_MS = 10_000  # of the page's own time, until all charts are drawn


def print_pdf(html: str) -> bytes:
    """A page as a PDF.

    Raises:
        ConfigurationError: There is no Chromium, Chrome or Edge here, or it does not print.

    >>> print_pdf(ek.report(exposure).to_html())[:5]  # doctest: +SKIP
    b'%PDF-'
    """
    browser = find_browser()
    if browser is None:
        raise ConfigurationError(
            "A PDF is printed by Chromium, Chrome or Edge, and none is here: install one, "
            "or open the page in any browser and print it"
        )
    with tempfile.TemporaryDirectory(prefix="exposurekit-") as scratch:  # 0700
        page, pdf = Path(scratch) / "report.html", Path(scratch) / "report.pdf"
        page.write_text(html, "utf-8")
        try:
            subprocess.run(  # noqa: S603  a browser, and files of our own making
                [browser, *_words(scratch), f"--print-to-pdf={pdf}", page.as_uri()],
                check=True,
                capture_output=True,
                timeout=PATIENCE_S,
                env=os.environ | {"HOME": scratch},
            )
            return pdf.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            kind = type(error).__name__
    raise ConfigurationError(
        f"{Path(browser).name} did not print the page ({kind}): open it in a browser and print it"
    )


def find_browser() -> str | None:
    """The browser that prints; None: none is here."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def _words(scratch: str) -> list[str]:
    words = [
        *(
            "--headless",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ),
        *("--disable-component-update", "--disable-sync", "--no-pdf-header-footer"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--virtual-time-budget={_DRAWS_MS}"),
        f"--user-data-dir={scratch}/profile",
    ]
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # there its sandbox cannot be
    return [*words, "--no-sandbox"] if is_root else words
