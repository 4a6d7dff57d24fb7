"""Print a page as a PDF with an installed Chromium, Chrome or Edge."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from exposurekit.errors import ConfigurationError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
TIMEOUT_S = 120
_VIRTUAL_TIME_MS = 10_000  # of the page, within which it draws all charts


def print_pdf(html: str) -> bytes:
    """Print a page as a PDF.

    Raises:
        ConfigurationError: No Chromium, Chrome or Edge is installed, or it fails.

    >>> print_pdf(ek.report(exposure).to_html())[:5]  # doctest: +SKIP
    b'%PDF-'
    """
    browser = find_browser()
    if browser is None:
        raise ConfigurationError(
            "Cannot print a PDF: no Chromium, Chrome or Edge found. Please install one, "
            "or open the page in any browser and print it"
        )
    with tempfile.TemporaryDirectory(prefix="exposurekit-") as scratch:  # 0700
        page, pdf = Path(scratch) / "report.html", Path(scratch) / "report.pdf"
        page.write_text(html, "utf-8")
        try:
            subprocess.run(  # noqa: S603  a browser from PATH and our own files
                [browser, *_options(scratch), f"--print-to-pdf={pdf}", page.as_uri()],
                check=True,
                capture_output=True,
                timeout=TIMEOUT_S,
                env=os.environ | {"HOME": scratch},
            )
            return pdf.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            kind = type(error).__name__
    raise ConfigurationError(
        f"{Path(browser).name} could not print the page ({kind}): open it in a browser and print it"
    )


def find_browser() -> str | None:
    """Return the path of an installed browser, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def _options(scratch: str) -> list[str]:
    options = [
        *(
            "--headless",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ),
        *("--disable-component-update", "--disable-sync", "--no-pdf-header-footer"),
        "--generate-pdf-document-outline",  # a bookmark for each heading
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--virtual-time-budget={_VIRTUAL_TIME_MS}"),
        f"--user-data-dir={scratch}/profile",
    ]
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0  # its sandbox does not work for root
    return [*options, "--no-sandbox"] if is_root else options
