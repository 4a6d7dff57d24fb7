"""The page: one file, nothing loaded from outside, nothing run but its own scripts."""

import base64
import hashlib
import re

import pandas as pd
import pytest

from exposurekit import analysis, charts
from exposurekit.report.page import Section, page

HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def html():
    records = pd.DataFrame(
        {"site": [HOSTILE, "Near"], "status": ["discovered", "removed"], "user_id": [1, 2]}
    )
    table = analysis.by_site(records)
    section = Section(f"By site {HOSTILE}", charts.by_site(table, provenance=HOSTILE), table)
    return page(f"Exposure {HOSTILE}", [section], provenance=HOSTILE)


def scripts(html):
    return re.findall(r"<script>(.*?)</script>", html, re.DOTALL)


def test_the_policy_names_each_script_by_its_hash(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    named = re.findall(r"'sha256-([^']*)'", policy)
    own = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts(html)]
    assert named == own
    assert len(own) == 2
    for rule in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in policy


def test_text_from_outside_runs_nothing(html):
    page_text = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert "<img" not in page_text
    assert "alert(1)</script>" not in page_text
    assert "<" not in scripts(html)[1]


def test_nothing_is_loaded_from_outside(html):
    page_text = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"<(?:link|img|iframe|object|embed|script src)", page_text)
    assert not re.search(r'(?:src|href)="', page_text)


def test_the_chart_has_its_text_and_its_numbers(html):
    assert "1 listing is not removed yet" in html
    assert "<td>Near</td>" in html


def test_no_chart_offers_an_upload(html):
    assert '"showSendToCloud":false' in scripts(html)[1]
