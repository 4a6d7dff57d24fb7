"""The directories of settings, keys and caches."""

import platformdirs
import pytest
from platformdirs.macos import MacOS

from exposurekit.system import paths


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize("configured", [None, "relative"])
def test_settings_are_in_the_directory_of_the_system(home, monkeypatch, configured):
    if configured:
        monkeypatch.setenv("XDG_CONFIG_HOME", configured)
    assert paths.config_dir() == home / ".config" / "exposurekit"


def test_directory_of_an_earlier_version_is_still_used(home, monkeypatch):
    monkeypatch.setattr(platformdirs, "user_config_path", lambda name, **_: MacOS(name).user_config_path)
    assert paths.config_dir() == home / "Library" / "Application Support" / "exposurekit"
    former = home / ".config" / "exposurekit"
    former.mkdir(parents=True)
    assert paths.config_dir() == former
