"""Pseudonyms: the same for the same key, which comes from the environment or a file of this machine."""

import base64
import traceback

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.privacy.pseudonyms import KEY_FILE_VARIABLE, KEY_VARIABLE, load_pseudonyms

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()


@pytest.fixture
def use_machine(tmp_path, monkeypatch):
    """Change to the configuration directory of a machine, and return it."""

    def use(name):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
        return tmp_path / name

    for variable in (KEY_VARIABLE, KEY_FILE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    use("first")
    return use


def test_each_machine_has_its_own_pseudonyms(use_machine):
    pseudonym = load_pseudonyms().of(7)
    assert load_pseudonyms().of(7) == pseudonym
    use_machine("second")
    assert load_pseudonyms().of(7) != pseudonym


@pytest.mark.parametrize("variable", [KEY_VARIABLE, KEY_FILE_VARIABLE])
def test_machines_with_a_common_key_share_their_pseudonyms(use_machine, tmp_path, monkeypatch, variable):
    file = tmp_path / "common.key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    own = load_pseudonyms().of(7)
    monkeypatch.setenv(variable, KEY if variable == KEY_VARIABLE else str(file))
    pseudonym = load_pseudonyms().of(7)
    assert pseudonym != own
    assert not use_machine("second").exists()
    assert load_pseudonyms().of(7) == pseudonym
    assert not use_machine("second").exists()


def test_the_key_itself_takes_precedence_over_its_file(use_machine, monkeypatch):
    pseudonym = load_pseudonyms().of(7)
    file = use_machine("first") / "exposurekit" / "pseudonyms.key"
    use_machine("second")
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(file))
    assert load_pseudonyms().of(7) == pseudonym
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    assert load_pseudonyms().of(7) != pseudonym


def test_a_malformed_key_is_refused_without_its_text(use_machine, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "sekret")
    with pytest.raises(ConfigurationError, match=f"{KEY_VARIABLE} is not the base64url form") as error:
        load_pseudonyms()
    assert "sekret" not in "".join(traceback.format_exception(error.value))


def test_a_missing_common_key_is_not_created(use_machine, tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(tmp_path / "common.key"))
    with pytest.raises(ConfigurationError, match="put a copy of the common key there"):
        load_pseudonyms()
    assert not (tmp_path / "common.key").exists()
