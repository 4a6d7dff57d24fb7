"""A ciphertext is decrypted with the same key for the same purpose only."""

import base64
import hmac
import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.errors import ConfigurationError
from exposurekit.service.storage.encryption import DecryptionError, Vault, load_key

KEY = bytes(range(32))
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=10,
)


@settings(max_examples=40)
@given(PLAIN, TEXT)
def test_decryption_reverses_encryption(value, purpose):
    vault = Vault(KEY)
    assert vault.decrypt(vault.encrypt(value, purpose), purpose) == value


@pytest.mark.parametrize(
    ("key", "purpose"), [(KEY, "users:2"), (Vault.generate_key(), "users:1")], ids=["purpose", "key"]
)
def test_a_ciphertext_needs_its_own_key_and_purpose(key, purpose):
    with pytest.raises(DecryptionError):
        Vault(key).decrypt(Vault(KEY).encrypt("x", "users:1"), purpose)


@settings(max_examples=60)
@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_byte_anywhere_prevents_decryption(position, change):
    ciphertext = bytearray(Vault(KEY).encrypt("a text that is long enough to be changed", "p"))
    ciphertext[position] ^= change
    with pytest.raises(DecryptionError):
        Vault(KEY).decrypt(bytes(ciphertext), "p")


@pytest.mark.parametrize("ciphertext", [b"", b"\x01", b"\x01" + bytes(12), b"\x02" + bytes(40)])
def test_what_is_no_ciphertext_is_not_decrypted(ciphertext):
    with pytest.raises(DecryptionError):
        Vault(KEY).decrypt(ciphertext, "p")


def test_equal_values_have_different_ciphertexts():
    assert Vault(KEY).encrypt("x", "p") != Vault(KEY).encrypt("x", "p")


def test_a_fingerprint_depends_on_key_domain_and_text():
    fingerprints = {
        Vault(key).fingerprint(text, domain)
        for key in (KEY, KEY[::-1])
        for text in ("a", "b")
        for domain in ("api_key", "api_secret")
    }
    assert len(fingerprints) == 8
    assert Vault(KEY).fingerprint("a", "api_key") == Vault(KEY).fingerprint("a", "api_key")


@pytest.mark.parametrize("text", ["", "a", "\ud800", "a" * 100, "a" * 101, "\u00e9" * 5_000])
def test_a_fingerprint_is_the_same_in_every_release(text):
    """Databases hold them: of short texts, which are cached, and of long ones."""
    key = hmac.digest(KEY, b"exposurekit fingerprints 1", "sha256")
    expected = hmac.digest(key, b"api_key\0" + text.encode("utf-8", "surrogatepass"), "sha256")
    vault = Vault(KEY)
    assert [vault.fingerprint(text, "api_key") for _ in range(2)] == [expected, expected]


def test_the_repr_hides_the_key():
    assert repr(Vault(KEY)) == "Vault(key hidden)"


def test_a_key_of_another_length_is_rejected():
    with pytest.raises(ConfigurationError, match="32 bytes"):
        Vault(b"short")


@pytest.fixture
def environment(monkeypatch, tmp_path):
    for name in ("EXPOSUREKIT_SERVICE_KEY", "EXPOSUREKIT_SERVICE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return monkeypatch


@pytest.mark.usefixtures("environment")
def test_a_key_is_generated_at_first_use_and_private(tmp_path):
    key = load_key()
    file = tmp_path / "config" / "exposurekit" / "service.key"
    assert len(key) == 32
    assert load_key() == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_the_environment_comes_before_every_file(environment, tmp_path):
    load_key(tmp_path / "other.key")
    environment.setenv("EXPOSUREKIT_SERVICE_KEY", base64.urlsafe_b64encode(KEY).decode())
    assert load_key(tmp_path / "other.key") == KEY


def test_the_environment_may_name_the_file(environment, tmp_path):
    environment.setenv("EXPOSUREKIT_SERVICE_KEY_FILE", str(tmp_path / "named.key"))
    assert load_key() == load_key(tmp_path / "named.key")


@pytest.mark.parametrize("text", ["short", "!" * 43, base64.urlsafe_b64encode(bytes(31)).decode()])
def test_an_invalid_key_is_rejected_without_being_quoted(environment, text):
    environment.setenv("EXPOSUREKIT_SERVICE_KEY", text)
    with pytest.raises(ConfigurationError, match="EXPOSUREKIT_SERVICE_KEY") as refusal:
        load_key()
    assert text not in str(refusal.value)


@pytest.mark.usefixtures("environment")
def test_a_key_file_readable_by_others_is_rejected(tmp_path):
    file = tmp_path / "service.key"
    load_key(file)
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_key(file)


@pytest.mark.usefixtures("environment")
def test_an_unwritable_location_is_a_one_line_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be read or created"):
        load_key(tmp_path / "file" / "service.key")


def test_processes_starting_together_agree_on_one_key(tmp_path):
    file = tmp_path / "deep" / "er" / "service.key"
    code = f"from pathlib import Path; from exposurekit.service.storage.encryption import load_key; print(load_key(Path({str(file)!r})))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPOSUREKIT_")}
    starts = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=clean) for _ in range(3)
    ]
    assert len({start.communicate()[0] for start in starts}) == 1
