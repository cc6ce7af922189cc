"""The tables. ``docs/data-model.md`` describes how rows change state.

Times are unix seconds. A table holds only phone numbers that a round found or an operator typed in or imported, and no
network address. A device is a row number and the hash of its token.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.schema import SchemaItem

metadata = MetaData()
# SQLite assigns keys only to its own INTEGER type.
_KEY = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(name, metadata, *parts)


def _round(*, primary_key: bool = True) -> Column[int]:
    return Column("round", _KEY, ForeignKey("rounds.id"), primary_key=primary_key, nullable=False, autoincrement=False)


devices = _table(
    "devices",
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),  # SHA-256: tokens are 256 random bits
    Column("enrolled", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("day", Integer, nullable=False, default=0, server_default="0"),  # of its last part, if a day has many rounds
)

invites = _table(
    "invites",
    Column("code_hash", LargeBinary(32), primary_key=True),
    Column("uses_left", Integer, nullable=False),
    Column("note", Text, nullable=False, default=""),
    Column("made", BigInteger, nullable=False),
)

admins = _table(
    "admins",
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),
    Column("scopes", Text, nullable=False),  # comma-joined: read, lists, rounds, devices
    Column("note", Text, nullable=False, default=""),
    Column("made", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

rounds = _table(
    "rounds",
    Column("id", _KEY, primary_key=True, autoincrement=False),  # 1, 2, 3, …
    Column("state", String(16), nullable=False),  # announcing, collecting, closed, decoded, published, held
    Column("held_from", String(16)),  # the state that a held round goes back to
    Column("reason", Text, nullable=False, default=""),  # why it is held
    Column("profile", Text, nullable=False),  # JSON: the round's whole configuration
    Column("plan", String(32), nullable=False),
    Column("window", Integer, nullable=False),  # as ``call_days``; in rounds where that is 0
    Column("call_days", Integer, nullable=False, default=0, server_default="0"),  # a number stays on the list so long
    Column("seed", LargeBinary(32), nullable=False),  # public: hash functions are derived from it
    Column("secret", LargeBinary(32), nullable=False),  # tickets are derived from it; erased when the round is decoded
    Column("opens", BigInteger, nullable=False),
    Column("collects", BigInteger, nullable=False),
    Column("closes", BigInteger, nullable=False),
    Column("next", BigInteger, nullable=False),  # when the following round opens
    Column("announced", Integer, nullable=False, default=0),  # devices, counted when announcing ended
    Column("rejected", Integer, nullable=False, default=0),  # refused uploads of enrolled devices, counted at the close
)

announcements = _table(
    "announcements",
    Column("round", _KEY, primary_key=True, autoincrement=False),  # no foreign key: intake has just read the round
    Column("device", _KEY, primary_key=True, autoincrement=False),  # a participant; below 0: a blind token
    Column("bucket", Integer, nullable=False),
    Column("ticket", LargeBinary(16), nullable=False, unique=True),
)

anonymity = _table(
    "anonymity",  # the issuer's: the keys of a round with anonymous participants
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("token_secret", LargeBinary, nullable=False),  # erased when the round is decoded
    Column("token_key", LargeBinary, nullable=False),
    Column("key_id", LargeBinary(32), nullable=False, unique=True),
    Column("gateway", LargeBinary, nullable=False),
    Column("relay", Text, nullable=False),
    Column("crowd", Integer),  # anonymous participants of all buckets, counted when announcing ended
    Column("opens", BigInteger),  # the times as they are signed: as planned at opening. None in a round of before
    Column("collects", BigInteger),
    Column("closes", BigInteger),
)

issued = _table(
    "issued",  # the issuer's: devices that have a token for a round; dropped when the round is decoded
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("device", _KEY, primary_key=True, autoincrement=False),
    Column("blinded", LargeBinary(32), nullable=False),  # SHA-256 of the signed value, so that it is signed once
)

gateway_keys = _table(
    "gateway_keys",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary(32), nullable=False),
)

buckets = _table(
    "buckets",
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("users", Integer, nullable=False),
    Column("anonymous", Integer),  # of the users, those with a blind token; none where a round takes no tokens
    Column("runs", Boolean, nullable=False),  # false: too small, its phones spend nothing
    Column("parameters", Text),  # JSON: the mechanism's parameters, as phones read them
)

reports = _table(
    "reports",  # on PostgreSQL this table and announcements are partitioned by round (db.partitions)
    Column("ticket", LargeBinary(16), primary_key=True),
    Column("round", _KEY, nullable=False),  # no foreign key: intake has just read the round
    Column("bucket", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("reports_by_bucket", "round", "bucket"),  # without the ticket, so that new rows are appended
)

tallies = _table(
    "tallies",
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("checksum", LargeBinary(32), nullable=False),  # sum of SHA-256(ticket ‖ body) mod 2^256: no order in it
    Column("data", LargeBinary, nullable=False),  # emptied once it is in no window
)

decodings = _table(
    "decodings",
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),  # a whole-number round is decoded in parts
)


def _findings(name: str) -> Table:
    return _table(
        name,
        _round(),
        Column("number", String(16), primary_key=True),
        Column("bucket", Integer, nullable=False),
        Column("estimate", Float, nullable=False),
        Column("low", Float, nullable=False),
        Column("high", Float, nullable=False),
        Column("p_value", Float, nullable=False),
        Column("strict", Integer, nullable=False, default=0, server_default="0"),  # shortest that may block, 0: none
        Column("hinted", Integer, nullable=False, default=0, server_default="0"),  # 1: strict by a hint, 2: found by it
        Column("length", Integer, nullable=False, default=1, server_default="1"),  # length of its window, in rounds
        Column("implausible", Boolean, nullable=False, default=False, server_default=false()),  # more than phones
        Index(f"{name}_by_number", "number"),
    )


hitters = _findings("hitters")
ranges = _findings("ranges")  # hundreds: their numbers are +120255501xx

hints = _table(
    "hints",  # numbers that a round tests with a share of the level of their own, as every decoder uses them
    Column("round", Integer, primary_key=True, autoincrement=False),  # no key to rounds, which old backups replace
    Column("sha256", String(64), nullable=False),
    Column("data", LargeBinary, nullable=False),  # emptied when the round is in no window any more
    Column("sources", Text, nullable=False),  # JSON: what each source gave, or why it gave nothing
)

imports = _table(
    "imports",  # a file of complaints, or a list, that an operator imported
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("source", String(40), nullable=False),
    Column("address", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),  # then it is deleted, with its numbers
    Column("least", Integer, nullable=False),  # complaints that a number of its source needs; the newest one's counts
)

imported = _table(
    "imported",  # never in the same table as what rounds found
    Column("import_id", _KEY, primary_key=True, autoincrement=False),
    Column("number", String(16), primary_key=True),
    Column("complaints", Integer, nullable=False),
    Index("imported_by_number", "number"),
)

versions = _table(
    "versions",
    Column("version", _KEY, primary_key=True, autoincrement=False),
    _round(primary_key=False),
    Column("made", BigInteger, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("data", LargeBinary),  # its first line; dropped once no delta starts from it
    Column("block_rounds", Integer),  # the setting that it was made with
)

entries = _table(
    "entries",  # the lines of the list, each in the versions from ``since`` to before ``until``
    Column("number", String(16).with_variant(String(16, collation="C"), "postgresql"), primary_key=True),
    Column("since", _KEY, primary_key=True, autoincrement=False),
    Column("until", _KEY),  # none: it is in the newest version
    Column("line", LargeBinary, nullable=False),
    Index("entries_since", "since"),
)
Index(
    "entries_until",  # of lines that have left: few beside those of the newest version
    entries.c.until,
    sqlite_where=entries.c.until.is_not(None),
    postgresql_where=entries.c.until.is_not(None),
)

changes = _table(
    "changes",  # changes since a version, for PhoneBlock's "since"
    Column("number", String(16), primary_key=True),
    Column("version", _KEY, nullable=False),
    Column("votes", Integer, nullable=False),  # 0: removed
    Column("last_ms", BigInteger, nullable=False),
    Index("changes_by_version", "version"),
)

allowed = _table(
    "allowed",
    Column("number", String(16), primary_key=True),
    Column("why", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

appeals = _table(
    "appeals",  # a log: rows stay, an appeal that is rejected or withdrawn is closed
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("number", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("closed", BigInteger),
    Column("closed_why", Text),
    Index("appeals_by_number", "number"),
)
Index(
    "appeals_open",  # a number has at most one open appeal
    appeals.c.number,
    unique=True,
    sqlite_where=appeals.c.closed.is_(None),
    postgresql_where=appeals.c.closed.is_(None),
)

files = _table(
    "files",  # the published bytes: TUF metadata and targets. Empty: made from ``entries`` when asked for
    Column("path", String(255), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("sha256", String(64), nullable=False),
)

counters = _table(
    "counters",  # a row for each worker, so that none waits for another
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("name", String(64), primary_key=True),
    Column("worker", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

refusals = _table(
    "refusals",  # of an enrolled device in a round; forgotten with its announcement
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("device", _KEY, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)

limits = _table(
    "limits",  # counts of this minute, over all workers
    Column("name", String(32), primary_key=True),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)

proofs = _table(
    "proofs",  # used proofs of work: each counts once
    Column("proof", LargeBinary(80), primary_key=True),
    Column("at", BigInteger, nullable=False),
)

ended_sessions = _table(
    "ended_sessions",  # sessions that operators logged out of
    Column("session", LargeBinary(32), primary_key=True),  # SHA-256 of the cookie
    Column("until", BigInteger, nullable=False),  # when it would have expired: then the row is deleted
)

audit = _table(
    "audit",  # a log of what operators did; rows stay
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("operator", _KEY, nullable=False),  # the number of a token; 0: the command line
    Column("name", Text, nullable=False),  # the token's note, or the user of the machine
    Column("what", String(32), nullable=False),
    Column("about", Text, nullable=False),  # a round, an appeal, a device, a number that was typed in
    Column("why", Text, nullable=False),
    Column("outcome", String(16), nullable=False),  # asked, done, refused
)

leases = _table(
    "leases",  # the leading worker, and the buckets that decoders work on
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Float, nullable=False),
    Column("token", BigInteger, nullable=False, default=0, server_default="0"),  # one more for each holder
)
