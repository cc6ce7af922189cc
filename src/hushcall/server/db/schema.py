"""The tables, with what each row means. ``docs/data-model.md`` tells how rows change state.

Times are unix seconds. No table holds a phone number that a round did not find (or an operator did not type in), and
none an address: what a device is known by is a number that it was given, and the hash of its token.
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

metadata = MetaData()
# SQLite makes a key by itself only for its own INTEGER type.
_KEY = BigInteger().with_variant(Integer, "sqlite")


def _round(*, primary_key: bool = True) -> Column[int]:
    """Which round a row belongs to."""
    return Column("round", _KEY, ForeignKey("rounds.id"), primary_key=primary_key, nullable=False, autoincrement=False)


devices = Table(
    "devices",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),  # SHA-256: tokens are 256 random bits
    Column("enrolled", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

invites = Table(
    "invites",
    metadata,
    Column("code_hash", LargeBinary(32), primary_key=True),
    Column("uses_left", Integer, nullable=False),
    Column("note", Text, nullable=False, default=""),
    Column("made", BigInteger, nullable=False),
)

admins = Table(
    "admins",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("token_hash", LargeBinary(32), nullable=False, unique=True),
    Column("scopes", Text, nullable=False),  # comma-joined: read, lists, rounds, devices
    Column("note", Text, nullable=False, default=""),
    Column("made", BigInteger, nullable=False),
    Column("revoked", BigInteger),
)

rounds = Table(
    "rounds",
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=False),  # 1, 2, 3, …
    Column("state", String(16), nullable=False),  # announcing, collecting, closed, decoded, published, held
    Column("held_from", String(16)),  # the state that a held round goes back to
    Column("reason", Text, nullable=False, default=""),  # why it is held
    Column("profile", Text, nullable=False),  # JSON: everything the round is run with
    Column("plan", String(32), nullable=False),
    Column("window", Integer, nullable=False),
    Column("seed", LargeBinary(32), nullable=False),  # public: hash functions come from it
    Column("secret", LargeBinary(32), nullable=False),  # tickets come from it; erased when the round is decoded
    Column("opens", BigInteger, nullable=False),
    Column("collects", BigInteger, nullable=False),
    Column("closes", BigInteger, nullable=False),
    Column("next", BigInteger, nullable=False),  # when the following round opens
    Column("announced", Integer, nullable=False, default=0),  # devices, counted when announcing ended
    Column("rejected", Integer, nullable=False, default=0),  # refused uploads of enrolled devices, counted at the close
)

announcements = Table(
    "announcements",
    metadata,
    Column("round", _KEY, primary_key=True, autoincrement=False),  # no foreign key: intake has just read the round
    Column("device", _KEY, primary_key=True, autoincrement=False),  # one device, one voice; below 0: a blind token
    Column("bucket", Integer, nullable=False),
    Column("ticket", LargeBinary(16), nullable=False, unique=True),
)

anonymity = Table(
    "anonymity",  # the issuer's: the keys of a round in which phones may take part without a name
    metadata,
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("token_secret", LargeBinary, nullable=False),  # erased when the round is decoded
    Column("token_key", LargeBinary, nullable=False),
    Column("key_id", LargeBinary(32), nullable=False, unique=True),
    Column("gateway", LargeBinary, nullable=False),
    Column("relay", Text, nullable=False),
    Column("crowd", Integer),  # phones without a name, counted when announcing ended
)

issued = Table(
    "issued",  # the issuer's: who has a token for a round; dropped when the round is decoded
    metadata,
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("device", _KEY, primary_key=True, autoincrement=False),
    Column("blinded", LargeBinary(32), nullable=False),  # SHA-256 of what was signed, so that it is signed once
)

gateway_keys = Table(
    "gateway_keys",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("secret", LargeBinary(32), nullable=False),
)

buckets = Table(
    "buckets",
    metadata,
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("users", Integer, nullable=False),
    Column("runs", Boolean, nullable=False),  # false: too small, nobody in it spends anything
    Column("parameters", Text),  # JSON: the mechanism, as phones read it
)

reports = Table(
    "reports",  # on PostgreSQL this table and announcements are partitioned by round (db.partitions)
    metadata,
    Column("ticket", LargeBinary(16), primary_key=True),
    Column("round", _KEY, nullable=False),  # no foreign key: intake has just read the round
    Column("bucket", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("reports_by_bucket", "round", "bucket"),  # without the ticket: what comes in last is added at the end
)

tallies = Table(
    "tallies",
    metadata,
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("checksum", LargeBinary(32), nullable=False),  # sum of SHA-256(ticket ‖ body) mod 2^256: no order in it
    Column("data", LargeBinary, nullable=False),  # emptied once no window looks at it any more
)

decodings = Table(
    "decodings",
    metadata,
    _round(),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),  # a whole-number round is decoded in parts
)

hitters = Table(
    "hitters",
    metadata,
    _round(),
    Column("number", String(16), primary_key=True),
    Column("bucket", Integer, nullable=False),
    Column("estimate", Float, nullable=False),
    Column("low", Float, nullable=False),
    Column("high", Float, nullable=False),
    Column("p_value", Float, nullable=False),
    Column("length", Integer, nullable=False, default=1, server_default="1"),  # rounds over which it was found
    Column("implausible", Boolean, nullable=False, default=False, server_default=false()),  # more reports than phones
    Index("hitters_by_number", "number"),
)

versions = Table(
    "versions",
    metadata,
    Column("version", _KEY, primary_key=True, autoincrement=False),
    _round(primary_key=False),
    Column("made", BigInteger, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("data", LargeBinary),  # dropped once no delta starts from it
)

changes = Table(
    "changes",  # what a subscriber that knows version N still has to learn: PhoneBlock's "since"
    metadata,
    Column("number", String(16), primary_key=True),
    Column("version", _KEY, nullable=False),
    Column("votes", Integer, nullable=False),  # 0: removed
    Column("last_ms", BigInteger, nullable=False),
    Index("changes_by_version", "version"),
)

allowed = Table(
    "allowed",
    metadata,
    Column("number", String(16), primary_key=True),
    Column("why", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)

appeals = Table(
    "appeals",  # a log: nothing is deleted, an appeal that is turned down or withdrawn is closed
    metadata,
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
    "appeals_open",  # one number has one open appeal, whoever asks at the same time
    appeals.c.number,
    unique=True,
    sqlite_where=appeals.c.closed.is_(None),
    postgresql_where=appeals.c.closed.is_(None),
)

files = Table(
    "files",  # what is published, byte for byte: TUF metadata and targets
    metadata,
    Column("path", String(255), primary_key=True),
    Column("data", LargeBinary, nullable=False),
    Column("sha256", String(64), nullable=False),
)

counters = Table(
    "counters",  # one row a worker, so that workers never wait for each other
    metadata,
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("name", String(64), primary_key=True),
    Column("worker", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

refusals = Table(
    "refusals",  # of an enrolled device in a round; forgotten with its announcement
    metadata,
    Column("round", _KEY, primary_key=True, autoincrement=False),
    Column("device", _KEY, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)

limits = Table(
    "limits",  # what happened in this minute, over all workers
    metadata,
    Column("name", String(32), primary_key=True),
    Column("minute", BigInteger, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
)

proofs = Table(
    "proofs",  # work that was taken: each answer counts once
    metadata,
    Column("proof", LargeBinary(80), primary_key=True),
    Column("at", BigInteger, nullable=False),
)

ended_sessions = Table(
    "ended_sessions",  # of operators who logged out before their time
    metadata,
    Column("session", LargeBinary(32), primary_key=True),  # SHA-256 of the cookie
    Column("until", BigInteger, nullable=False),  # when it would have ended by itself: then the row goes
)

audit = Table(
    "audit",  # what operators did; nothing is deleted
    metadata,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("operator", _KEY, nullable=False),  # the number of a token; 0: the command line
    Column("name", Text, nullable=False),  # the token's note, or the user of the machine
    Column("what", String(32), nullable=False),
    Column("about", Text, nullable=False),  # a round, an appeal, a device, a number that was typed in
    Column("why", Text, nullable=False),
    Column("outcome", String(16), nullable=False),  # asked, done, refused
)

leases = Table(
    "leases",  # which worker's scheduler is at work, and which decoder has which bucket in hand
    metadata,
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Float, nullable=False),
    Column("token", BigInteger, nullable=False, default=0, server_default="0"),  # one more with each that takes it
)
