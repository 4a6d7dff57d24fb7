"""Scans that say nothing are logged once an hour."""

import logging
from datetime import timedelta

from support.services import START

from exposurekit.service.scanning.scan_warnings import ScanWarnings
from exposurekit.service.scanning.site_scan import SiteResult
from exposurekit.service.sites.statistics import WAITS_FOR_PERSON


def test_a_site_is_warned_of_once_an_hour(caplog):
    caplog.set_level(logging.INFO, "exposurekit.service")
    warnings, blocked = ScanWarnings(), SiteResult(inconclusive="blocked")
    for minutes in (0, 1, 59, 60, 61):
        warnings.add("Seekfolk", blocked, START + timedelta(minutes=minutes))
    warnings.add("Seekfolk", SiteResult(trusted=False), START)
    for result in (SiteResult(), SiteResult(inconclusive=WAITS_FOR_PERSON)):
        warnings.add("Seekfolk", result, START)
    assert caplog.messages == [
        "site='Seekfolk' inconclusive_scans=1 reason='blocked'",
        "site='Seekfolk' inconclusive_scans=3 reason='blocked'",
        "site='Seekfolk' inconclusive_scans=1 reason='it lists an invented person'",
    ]
