"""What the model checker is asked: each model with switches, and whether it must hold.

A model that passes proves little by itself: it may be too tame to fail. So each rule has a variant that breaks it, and
the checker must find how that loses a task, doubles one or makes an answer a lie. The VACUITY variants claim that an
interesting state is never reached; they must fail as well.
"""

from __future__ import annotations

HOLDS = [
    "closing",
    "finish",
    "cancel",
    "cancel NOMERGECHECK",
    "places",
    "places NDEAD=2",
    "pointing",
    "moves",
    "moves NM=2 NOCANCEL NLEAVE=0",
    "repeats",
    "repeats NOTIME",
    "repeats KEYS NC=1",
    "repeats NC=2 NT=3",
    "carry",
    "carry NLEAVE=0 NSTALE=1",
    "carry NSTALE=1 NSTALL=0",
    "carry NCRASH=2 NSTALL=0",
    "schedules ONE PAUSE",
    "schedules ONE",
    "schedules ONE PAUSE NCRASH=2",
    "schedules ONE SPEC2=5 N=3",
    "schedules PAUSE",
    "schedules PAUSE NCRASH=0 NSTALL=1",
    "schedules CREATE NOUPDATE NSTALL=1",
    "overlap",
    "overlap BUFFER",
    "delay",
    "delay NCRASH=2",
    "delay TRIGGER NCRASH=0",
    "zones",
    "zones MOVE",
    "zones NCRASH=2",
    "cycle ADD",
    "cycle ADD NCRASH=2",
    "cycle REMOVE",
    "cycle BOTH",
    "cycle AGAIN",
    "outbox",
    "outbox NCRASH=1 NOLD=2",
    "outbox SHUT NCRASH=0 NOLD=0",
    "limits",
    "limits LIMIT=2",
    "limits CAPONLY LEAK",
    "keyed NBREAK=0",
    "keyed NCRASH=0",
    "keyed NLEAVE=0",
    "keyed NCRASH=0 CAPONLY ASKEDONCE",
    "rates",
    "order",
    "order NCRASH=0 NFAIL=2 NLEAVE=2",
    "failure",
    "failure HALT",
    "failure PASS",
    "shards NMOVE=0",
    "shards NCRASH=0",
    "shards NCRASH=0 ANNOUNCED",
    "shards STORED",
    "shards STORED NMOVE=2 NFAIL=1",
    "shards STORED HALT",
    "shards STORED NMOVE=2 HALT",
    "shards STORED NFAIL=1 HALT",
    "shards STORED NMOVE=2 NFAIL=1 HALT",
    "shards STORED NCRASH=0 HALT",
    "shards STORED NMOVE=2 NCRASH=0 HALT",
    "redrives",
    "redrives NOPS=4 NDIE=3 NCRASH=2",
]
# Each with the fewest faults that show it: the counterexample is short then, and found at once.
TWO_MOVES = "moves NM=2 NOCANCEL NLEAVE=0"
NO_FAULT = "carry NCRASH=0 NLEAVE=0 NSTALL=0"
CRASH = "carry NCRASH=1 NLEAVE=0 NSTALL=0"
LEAVE = "carry NCRASH=0 NLEAVE=1 NSTALL=0"
TWO_CRASHES = "carry NCRASH=2 NLEAVE=0 NSTALL=0"
BREAKS_THE_KEY = ("FEWFIRST", "UNHEARD", "SAIDONCE", "ADOPTSILENT", "LATECOUNTS")
BREAKS_THE_LIMIT = ("NOREPORT", "NOVOID", "FREELOST", "TWICE", "NOWAIT", "ADOPTBLIND", "OLDRETURN", "DEATHBLIND")
BROKEN = [
    *(f"closing {rule}" for rule in (
        "VACUITY", "NOCHECK", "READFIRST", "SCANFIRST", "READONE", "ASYNCCOMMIT", "ADOPTRACE", "FLOORLATE",
        "SETTLEFIRST", "HINTBLIND", "FIREEARLY", "NO=3 NOFENCE",
    )),
    *(f"finish {rule}" for rule in (
        "VACUITY", "FINISHEMPTY", "COUNTFIRST", "FLAGFIRST", "OPENFOREVER", "NOANNOUNCE", "OPENBLIND",
    )),
    *(f"cancel {rule}" for rule in (
        "VACUITY", "CACHEDROUTE", "NOSET", "NOSENDCHECK", "HINTBEFORELOAD", "PRELOADBLIND",
    )),
    *(f"places {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "READFIRST", "SILENTMOVES", "FLOORMOVES", "OVERCOUNTS", "NOLOOK",
        "LOOKFIRST", "NOCAS", "OWNPLACE", "ROWFIRST", "STARTNOW",
    )),
    *(f"pointing {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "POINTLATE", "POINTTHERE", "MARKSSTAY", "MARKSFIRST", "ROWSONLY",
        "LOOKONCE",
    )),
    *(f"repeats {rule}" for rule in ("VACUITY1", "VACUITY2", "NOLOOK", "NOORDER")),
    *(f"repeats NOTIME {rule}" for rule in ("NOLOOK", "LOOKAPART", "BLINDRETRY", "NOKEEP", "NOAWAY", "AWAYLATE")),
    *(f"repeats KEYS NC=1 {rule}" for rule in ("VACUITY3", "NOTARGET", "TARGETBLIND")),
    *(f"moves {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "OLDFIRESBLIND", "TARGETBLIND", "DECIDEBLIND", "CANCELREADFIRST",
        "NOCELLCHECK", "UNKNOWNFREE", "ASKEARLY", "NOCANCEL FINISHBLIND", "EXPIREATTARGET",
        "NM=2 NCRASH=0 NLEAVE=0 INTURN CANCELNOLOOP",
    )),
    *(f"{TWO_MOVES} {rule}" for rule in (
        "NOSOURCE", "HELPNOINSERT", "RESOLVERACE", "EXPIRENOSOURCE", "EXPIREONCE",
    )),
    *(f"{NO_FAULT} {rule}" for rule in ("VACUITY1", "VACUITY2", "NOCLOSING", "PLACEBLIND", "LEASEBLIND", "ACKOLDONLY")),
    *(f"{CRASH} {rule}" for rule in ("ROWFIRST", "PASSEARLY", "NOREINSERT", "NOSETTLEREAD", "CONFIRMEARLY")),
    *(f"{LEAVE} {rule}" for rule in ("LEASEDROPPED", "LEAVEOPEN")),
    *(f"{TWO_CRASHES} {rule}" for rule in ("DONEWINS", "CARRIEDWINS")),
    "carry NCRASH=2 NSTALL=0 RESENDOLD",
    "carry NCRASH=0 NLEAVE=0 NACKANY",
    "carry NCRASH=1 NLEAVE=0 NSTALL=0 NSTALE=1 FORKCOUNTS",
    *(f"schedules ONE {rule}" for rule in (
        "NOFENCE", "RECOMPUTE", "BLINDUPDATE", "NORET", "HALFHELP", "NOVOID",
        "ROWFIRST", "TICKFIRST", "ACKFIRST", "BLINDINSERT", "CASFIRST", "LASTONLY", "NOINSERT", "NOTAKEN", "EARLYNEW",
        "EARLYOK", "VACUITY1", "VACUITY3",
    )),
    "schedules ONE PAUSE NCRASH=2 OLDTICKENDS",
    "schedules CREATE ONE NCRASH=0 SPEC2=7 VACUITY2",
    *(f"cycle ADD {rule}" for rule in (
        "READFIRST", "READONE", "ACKFIRST", "NOLOOK", "LOOKFIRST", "EARLYOK", "BLINDINSERT", "VACUITY1",
    )),
    *(f"cycle REMOVE {rule}" for rule in ("CANCELFIRST", "REMLOOKFIRST", "NOSTICK", "VACUITY2")),
    "cycle BOTH ADDBLIND",
    *(f"overlap {rule}" for rule in (
        "LOOKFIRST", "UNDURABLE", "TRIGGERBLIND", "EARLYSKIP", "CLOCKLATE", "BUFFER NOPOLL", "VACUITY",
    )),
    *(f"delay {rule}" for rule in (
        "CLOCKFIRST", "UNDURABLE", "LOOKFIRST", "RECOMPUTE", "ROWFIRST", "NOPOLL", "VACUITY1", "TRIGGER TRIGGERBLIND",
        "TRIGGER VACUITY2",
    )),
    *(f"zones {rule}" for rule in (
        "SWEEPFIRST", "NORESUME", "PROGRESSFIRST", "NONUMBER", "NOWIND", "OLDCOMPUTES", "NOVOID", "LOOKFIRST",
        "MOVE NOMARK", "MOVE LOOKFIRST", "VACUITY1", "MOVE VACUITY1", "VACUITY2",
    )),
    *(f"outbox {rule}" for rule in (
        "NOSEAL", "TWOSTEPS", "DONEFIRST", "OVERTAKE", "HELDKEY", "NOTIME", "VACUITY1", "VACUITY2", "VACUITY3",
        "SHUT NCRASH=0 NOLD=0 SHUTFINAL", "SHUT NCRASH=0 NOLD=0 RESEAL", "SHUT NCRASH=0 NOLD=0 VACUITY4",
    )),
    *(f"limits {rule}" for rule in ("VACUITY1", "VACUITY2", "LEAK", *BREAKS_THE_LIMIT)),
    *(f"limits CAPONLY {rule}" for rule in BREAKS_THE_LIMIT),
    *(f"keyed {rule}" for rule in ("VACUITY1", "VACUITY2", "ASKEDONCE")),
    *(f"keyed CAPONLY {rule}" for rule in BREAKS_THE_KEY),
    *(f"rates {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "NOAFTER", "NOEND", "ENDHEARD", "BEGINASKED", "FULLBURST", "NOPAUSE",
        "BURST=3 LIFEPAUSE", "GHOST",
    )),
    *(f"order {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "ACKFREES", "NOLEASE", "PARTBLIND", "LANEBLIND", "LOADFIRST", "EARLYNEXT",
        "CLOCKORD", "ACCEPTBLIND", "UNKNOWNOK", "RETRYMOVES", "LEAVEEARLY", "LEAVEBLIND", "LATEACCEPT",
    )),
    *(f"order ORDERONLY {rule}" for rule in ("LANEBLIND", "LATEACCEPT", "LOADFIRST")),
    "order NCRASH=2 NPARK=0",
    *(f"failure HALT {rule}" for rule in (
        "ENDFIRST", "NOTESBLIND", "NOTEALONE", "RESUMEANY", "GOFIRST", "NOTEGOES", "NOTEEARLY", "SKIPSALIVE",
        "VACUITY1", "VACUITY2", "VACUITY4",
    )),
    *(f"failure PASS {rule}" for rule in ("PASSEARLY", "KEEPSPLACE", "VACUITY3")),
    *(f"shards NCRASH=0 {rule}" for rule in ("PARTBLIND", "HANDSBLIND", "METBLIND")),
    *(f"shards NCRASH=0 ANNOUNCED {rule}" for rule in ("UNCLOSED", "OKFIRST")),
    *(f"shards STORED {rule}" for rule in ("VACUITY1", "VACUITY2", "LEAVEBLIND", "OWEDBLIND", "ACKFREES")),
    "shards STORED HALT DEADFREES",
    *(f"shards STORED NCRASH=0 HALT {rule}" for rule in ("VACUITY3", "NOTESBLIND")),
    "shards STORED NMOVE=2 NCRASH=0 HALT NOTESOLD",
    *(f"redrives {rule}" for rule in ("VACUITY1", "VACUITY2", "NOTEOFTASK", "EACHWAITS", "NOTEGOES", "ALLBEFORE")),
]  # fmt: skip
# The shortest of each model: they are searched in every run of the tests.
QUICK = (
    "cancel",
    "cancel NOSET",
    "closing NOCHECK",
    "finish OPENFOREVER",
    "places VACUITY1",
    "repeats VACUITY1",
    "moves VACUITY1",
    f"{NO_FAULT} VACUITY1",
    "schedules ONE NOFENCE",
    "overlap LOOKFIRST",
    "delay",
    "delay CLOCKFIRST",
    "zones NOWIND",
    "cycle ADD",
    "cycle ADD NOLOOK",
    "outbox NOSEAL",
    "outbox NOTIME",
    "limits NOREPORT",
    "keyed CAPONLY FEWFIRST",
    "rates FULLBURST",
    "order EARLYNEXT",
    "failure HALT",
    "failure PASS PASSEARLY",
    "shards STORED",
    "redrives EACHWAITS",
)
