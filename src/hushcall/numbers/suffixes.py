"""Digits of any length as one integer, and back: the digits behind an area code come in, an item leaves.

Where numbers have no fixed length, 123 and 0123 are two numbers, so a plain integer will not do. This is the bijective
numeral: all texts of one digit first, then all of two, and so on, each in order. Up to eight digits fit 27 bits.

>>> [numeral(digits) for digits in ("0", "9", "00", "01", "99999999")]
[0, 9, 10, 11, 111111109]
>>> [digits_of(item) for item in (0, 10, 111111109)]
['0', '00', '99999999']
"""

from __future__ import annotations


def first_of_length(length: int) -> int:
    """The numeral of so many zeros: as many texts are shorter."""
    return int((10**length - 10) // 9)


def numeral(digits: str) -> int:
    """The place of these digits among all texts of digits, the shorter ones first."""
    return int(digits) + first_of_length(len(digits))


def digits_of(item: int) -> str:
    """The inverse of :func:`numeral`."""
    length = 1
    while item >= first_of_length(length + 1):
        length += 1
    return f"{item - first_of_length(length):0{length}d}"
