"""Lists to test with, shared by the tests of lists, exports and the phone: fictional numbers only."""

from hypothesis import strategies as st

from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, Sighting

TERMS = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7)
DAY = 86_400
START = 1_794_700_800  # 2026-11-15

numbers = st.one_of(
    st.integers(0, 99).map(lambda last: f"+120255501{last:02d}"),
    st.integers(2_002_000_000, 9_999_999_999).map(lambda national: f"+1{national}"),
    st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True),
)
amounts = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def entries(draw: st.DrawFn) -> tuple[Entry, ...]:
    """Sorted entries, each number once."""
    chosen = sorted(draw(st.sets(numbers, max_size=25)))
    moments = st.integers(-(10**9), 4 * 10**9)
    return tuple(
        Entry(
            number,
            draw(moments),
            draw(moments),
            draw(st.integers(1, 400)),
            draw(amounts),
            draw(amounts),
            draw(amounts),
            draw(st.floats(0, 1)),
        )
        for number in chosen
    )


@st.composite
def blocklists(draw: st.DrawFn) -> Blocklist:
    """Lists of any version, with any terms' worth of entries."""
    version, made = draw(st.integers(0, 10**6)), draw(st.integers(0, 4 * 10**9))
    return Blocklist(version, draw(st.integers(0, 10**6)), made, TERMS, draw(entries()))


sightings = st.builds(
    lambda last, day, at, estimate: Sighting(
        f"+120255501{last:02d}", day, START + day * DAY + at, estimate, estimate - 20.0, estimate + 20.0, 1e-6
    ),
    st.integers(0, 5),
    st.integers(0, 40),
    st.integers(0, 3),
    st.floats(0, 1e4),
)


def big_list(size: int, version: int = 1, step: int = 1) -> Blocklist:
    """A list of ``size`` numbers; a larger ``step`` leaves others in place."""
    found = tuple(
        Entry(f"+1{2_022_000_000 + 37 * i * step}", START, START + DAY, 2, 118.25 + i % 50, 97.0, 140.5, 1e-9)
        for i in range(size)
    )
    return Blocklist(version, version, START + DAY, TERMS, found)


def sample() -> Blocklist:
    """The list of the golden files: eleven numbers, so that an address book needs two contacts."""
    found = tuple(
        Entry(f"+120255501{last:02d}", START - DAY * (i % 4), START, 1 + i % 4, 0.4 + 4.9 * i**1.5, 0.0, 200.0, 1e-9)
        for i, last in enumerate(range(40, 51))
    )
    return Blocklist(12, 12, START + DAY, TERMS, found)
