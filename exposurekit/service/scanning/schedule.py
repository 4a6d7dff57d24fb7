"""When a user, a record or a site is next due for a scan."""

from datetime import datetime, timedelta

from exposurekit.service.sites.definition import Definition

SCAN_EVERY = timedelta(weeks=1)
RESCAN_AFTER = timedelta(hours=1)  # when there was nothing to scan: another worker may have the sites
MIN_VERIFICATION_DELAY = timedelta(hours=1)  # after an opt-out, however short the site's processing time

VERIFIED_WITHIN = timedelta(days=365)  # the longest that a definition may say
_RETRIED_WITHIN = timedelta(days=3)  # of an opt-out that failed


def verified_within(site: Definition) -> timedelta:
    """Return the longest time until a record of a site is due."""
    days = (site.removal.processing_days, site.verification.after_days or 0, site.verification.every_days)
    return max(timedelta(days=max(days)), confirmed_within(site), _RETRIED_WITHIN)


def confirmed_within(site: Definition) -> timedelta:
    """Return how long an opt-out waits for the site's message."""
    return timedelta(days=0 if site.removal.confirm is None else site.removal.confirm.within_days)


def next_scan_at(now: datetime, *, scanned: bool) -> datetime:
    """Return when a user is scanned again; `scanned` says whether there was a site or a search engine to scan."""
    return now + (SCAN_EVERY if scanned else RESCAN_AFTER)


def first_verification_at(now: datetime, site: Definition) -> datetime:
    """Return when a site is first scanned for a listing whose opt-out was just sent."""
    days = site.verification.after_days
    delay = timedelta(days=site.removal.processing_days if days is None else days)
    return now + max(delay, MIN_VERIFICATION_DELAY)


def next_verification_at(now: datetime, site: Definition) -> datetime:
    """Return when a site is scanned again for a listing that is pending removal."""
    return now + timedelta(days=site.verification.every_days)
