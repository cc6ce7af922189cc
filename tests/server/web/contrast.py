"""Two colours of a style sheet come in, their contrast leaves: the ratio that WCAG 2 defines, from 1 to 21."""

import re


def schemes(style: str) -> list[dict[str, str]]:
    """The colours of a style sheet by name, in the light scheme and in the dark one."""
    parts = style.split("@media (prefers-color-scheme: dark)")[:2]
    assert len(parts) == 2
    return [dict(re.findall(r"--([\w-]+): (#\w{6});", part)) for part in parts]


def contrast(one: str, other: str) -> float:
    """How well one colour can be read on the other."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
