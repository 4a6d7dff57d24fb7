"""Warnings of scans that say nothing: one line per site and reason, at most once an hour, with their number."""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from exposurekit.service.scanning.site_scan import SiteResult
from exposurekit.service.sites.statistics import VALUE_MISSING, WAITS_FOR_PERSON

EVERY = timedelta(hours=1)
UNTRUSTED = "it lists an invented person"
_EXPECTED = {WAITS_FOR_PERSON, VALUE_MISSING}  # nobody need mend them
_log = logging.getLogger("exposurekit.service")


@dataclass(slots=True)
class _Repeats:
    logged_at: datetime
    scans: int = 0  # since then


@dataclass(slots=True)
class ScanWarnings:
    """The warnings of one worker."""

    _repeats: dict[tuple[str, str], _Repeats] = field(default_factory=dict)

    def add(self, site: str, result: SiteResult, now: datetime) -> None:
        """Log a result if it is inconclusive or untrusted, unless the site's same result was logged within the hour."""
        reason = result.inconclusive if result.trusted else UNTRUSTED
        if reason is None or reason in _EXPECTED:
            return
        repeats = self._repeats.setdefault((site, reason), _Repeats(now - EVERY))
        repeats.scans += 1
        if now - repeats.logged_at >= EVERY:
            _log.warning("site=%r inconclusive_scans=%d reason=%r", site, repeats.scans, reason)
            self._repeats[site, reason] = _Repeats(now)
