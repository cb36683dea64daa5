"""Seal keys: texts are sealed for one place, and opened there with the same key alone."""

from __future__ import annotations

import base64
import itertools

import pytest

from fanlog.core.seal_keys import (
    KEY_PREFIX,
    NO_KEYS,
    NONCE_BYTES,
    SEALED_PREFIX,
    SealKey,
    SealKeys,
    parse_keys,
)
from fanlog.errors import ConfigError, DataLoss

ONE, TWO = SealKey(bytes(range(32))), SealKey(b"\x77" * 32)
SECRET = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA=="
PLACE = b"S" + bytes(8)


def keys(*given: SealKey) -> SealKeys:
    nonces = itertools.count(1)
    return SealKeys(given, lambda: next(nonces).to_bytes(NONCE_BYTES, "big"))


def test_what_is_sealed_is_opened_at_its_place():
    sealed = keys(ONE).seal(SECRET, PLACE)
    assert sealed.startswith(SEALED_PREFIX)
    assert keys(ONE).open(sealed, PLACE) == SECRET
    content = base64.b64decode(sealed.removeprefix(SEALED_PREFIX))
    assert content[0] == 1
    assert content[1:9] == ONE.id
    assert SECRET.encode() not in content
    assert b"planted" not in content


def test_a_text_is_sealed_differently_each_time():
    some = keys(ONE)
    assert some.seal(SECRET, PLACE) != some.seal(SECRET, PLACE)


def test_the_form_is_that_of_the_library():
    """Held against the library itself: the form on disk never changes."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    content = base64.b64decode(keys(ONE).seal(SECRET, PLACE).removeprefix(SEALED_PREFIX))
    head, nonce, rest = content[:9], content[9:21], content[21:]
    assert nonce == (1).to_bytes(12, "big")
    bound = b"fanlog sealed secret\0" + head + PLACE
    assert AESGCM(bytes(range(32))).decrypt(nonce, rest, bound) == SECRET.encode()


def test_another_place_does_not_open_it():
    sealed = keys(ONE).seal(SECRET, PLACE)
    with pytest.raises(DataLoss, match="moved here from another place") as refused:
        keys(ONE).open(sealed, PLACE + b"x")
    assert "whsec" not in str(refused.value)


def test_every_byte_counts():
    content = bytearray(base64.b64decode(keys(ONE).seal(SECRET, PLACE)[len(SEALED_PREFIX) :]))
    for at in range(len(content)):
        content[at] ^= 1
        damaged = SEALED_PREFIX + base64.b64encode(bytes(content)).decode()
        # A damaged id is that of another key; a damaged version is not known.
        with pytest.raises(ConfigError if 1 <= at < 9 else DataLoss):
            keys(ONE).open(damaged, PLACE)
        content[at] ^= 1


@pytest.mark.parametrize("text", ["sealed:", "sealed:!", "sealed:AAAA", "sealed:AQ=="])
def test_what_no_key_sealed(text: str):
    for some in (keys(ONE), NO_KEYS):
        with pytest.raises(DataLoss, match="damaged"):
            some.open(text, PLACE)


def test_a_missing_key_is_named_with_the_setting():
    sealed = keys(ONE).seal(SECRET, PLACE)
    with pytest.raises(ConfigError, match="no seal key is given") as missing:
        NO_KEYS.open(sealed, PLACE)
    with pytest.raises(ConfigError, match="name the file of the other one") as wrong:
        keys(TWO).open(sealed, PLACE)
    for refused in (missing, wrong):
        assert ONE.id.hex() in refused.value.message
        assert "--seal-key-file" in refused.value.message
        assert "FANLOG_SEAL_KEY" in refused.value.message
    assert TWO.id.hex() in wrong.value.message


def test_the_first_seals_and_all_open():
    old = keys(ONE).seal(SECRET, PLACE)
    both = keys(TWO, ONE)
    assert both.open(old, PLACE) == SECRET
    new = both.seal(SECRET, PLACE)
    assert keys(TWO).open(new, PLACE) == SECRET
    assert both.is_current(new)
    assert not both.is_current(old)
    assert not both.is_current(SECRET)


def test_without_keys_texts_stay_plain():
    assert NO_KEYS.seal(SECRET, PLACE) == SECRET
    assert NO_KEYS.open(SECRET, PLACE) == SECRET
    assert NO_KEYS.is_current(SECRET)
    assert not NO_KEYS.is_current(keys(ONE).seal(SECRET, PLACE))
    assert not NO_KEYS
    # With keys, a text from before there were any is opened as it is.
    assert keys(ONE).open(SECRET, PLACE) == SECRET


def test_keys_are_texts():
    assert SealKey.parse(ONE.text()) == ONE
    assert ONE.text().startswith(KEY_PREFIX)
    assert parse_keys(f"# of May\n{TWO.text()}\n\n{ONE.text()} \n") == [TWO, ONE]
    assert parse_keys(f"{TWO.text()} {ONE.text()}") == [TWO, ONE]
    assert ONE.id != TWO.id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no seal key"),
        ("# flsk_\n", "there is no seal key"),
        ("flt_c2VjcmV0", "a seal key is 'flsk_' and 32 bytes"),
        ("flsk_c2VjcmV0", "a seal key is 'flsk_' and 32 bytes"),
        (ONE.text()[5:], "a seal key is 'flsk_' and 32 bytes"),
        (ONE.text() + "!", "a seal key is 'flsk_' and 32 bytes"),
        (ONE.text() + "é", "a seal key is 'flsk_' and 32 bytes"),
        (f"{ONE.text()}\n{ONE.text()}", "is in it twice"),
    ],
)
def test_texts_that_are_no_keys_are_not_repeated(text: str, words: str):
    with pytest.raises(ValueError, match=words) as refused:
        parse_keys(text)
    assert "c2VjcmV0" not in str(refused.value)
    assert ONE.text()[5:20] not in str(refused.value)


def test_no_key_is_shown():
    assert ONE.text()[5:] not in repr(ONE)
    assert repr(ONE.content) not in repr(ONE)
