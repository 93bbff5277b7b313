"""The model checker goes through every state of the protocol's models, and each rule is shown to be needed.

A model that passes proves little by itself: it may be too tame to fail. So each rule has a variant that breaks it, and
the checker must find how that loses a task, doubles one or makes an answer a lie. The VACUITY variants claim that an
interesting state is never reached; they must fail as well.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.models.checking import HERE, MISSING, verdict

HOLDS = [
    "closing",
    "finish",
    "cancel",
    "cancel NOMERGECHECK",
    "ties",
    "ties NT=3",
    "moves",
    "moves NM=2 NOCANCEL NLEAVE=0",
    "tied_moves",
    "tied_moves NT=1 NM=2",
    "carry",
    "carry NLEAVE=0 NSTALE=1",
    "carry NSTALE=1 NSTALL=0",
    "carry NCRASH=2 NSTALL=0",
]
# Each with the fewest faults that show it: the counterexample is short then, and found at once.
TWO_MOVES = "moves NM=2 NOCANCEL NLEAVE=0"
NO_FAULT = "carry NCRASH=0 NLEAVE=0 NSTALL=0"
CRASH = "carry NCRASH=1 NLEAVE=0 NSTALL=0"
LEAVE = "carry NCRASH=0 NLEAVE=1 NSTALL=0"
TWO_CRASHES = "carry NCRASH=2 NLEAVE=0 NSTALL=0"
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
    *(f"ties {rule}" for rule in (
        "VACUITY", "NOTIE", "TIELATE", "LOOKFIRST", "NOLOOK", "NOBACK", "LEADSFIRST", "NOTSAID",
    )),
    *(f"moves {rule}" for rule in (
        "VACUITY1", "VACUITY2", "VACUITY3", "OLDFIRESBLIND", "TARGETBLIND", "DECIDEBLIND", "CANCELREADFIRST",
        "NOCELLCHECK", "UNKNOWNFREE", "ASKEARLY", "NOCANCEL FINISHBLIND", "EXPIREATTARGET",
        "NM=2 NCRASH=0 NLEAVE=0 INTURN CANCELNOLOOP",
    )),
    *(f"{TWO_MOVES} {rule}" for rule in (
        "NOSOURCE", "HELPNOINSERT", "RESOLVERACE", "EXPIRENOSOURCE", "EXPIREONCE",
    )),
    *(f"tied_moves {rule}" for rule in (
        "VACUITY1", "VACUITY2", "NOTIE", "TIELATE", "LOOKFIRST", "NOLOOK", "NOTELL", "TELLONLY", "TELLLATE",
        "SOURCEONLY", "NOBACK", "NOHOME", "NOFOLLOW", "LEADSFIRST", "COPYUNASKED", "COPYUNMARKED", "COPYBUSY",
        "SILENTFREE", "DECIDEFIRST", "FAILEDOVER",
    )),
    *(f"{NO_FAULT} {rule}" for rule in ("VACUITY1", "VACUITY2", "NOCLOSING", "PLACEBLIND", "LEASEBLIND", "ACKOLDONLY")),
    *(f"{CRASH} {rule}" for rule in ("ROWFIRST", "PASSEARLY", "NOREINSERT", "NOSETTLEREAD", "CONFIRMEARLY")),
    *(f"{LEAVE} {rule}" for rule in ("LEASEDROPPED", "LEAVEOPEN")),
    *(f"{TWO_CRASHES} {rule}" for rule in ("DONEWINS", "CARRIEDWINS")),
    "carry NCRASH=2 NSTALL=0 RESENDOLD",
    "carry NCRASH=0 NLEAVE=0 NACKANY",
    "carry NCRASH=1 NLEAVE=0 NSTALL=0 NSTALE=1 FORKCOUNTS",
]  # fmt: skip


@pytest.fixture
def checker() -> None:
    if MISSING and os.environ.get("CI") == "true":
        pytest.fail(f"The models must be checked here, but {' and '.join(MISSING)} cannot be found: install it.")
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} cannot be found: install it to check the models")


@pytest.mark.models
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize("case", HOLDS)
def test_model_holds(case: str) -> None:
    said, words = verdict(case, holds=True)
    assert said == "holds", words


@pytest.mark.models
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize("case", BROKEN)
def test_broken_variant_is_found(case: str) -> None:
    said, words = verdict(case, holds=False)
    assert said == "broken", words


def switches_named_in(model: Path) -> set[str]:
    """The switches that the model's text asks for; numbers with a default (NCRASH ...) are dials, not variants."""
    text = model.read_text(encoding="utf-8")
    asked = set(re.findall(r"#ifn?def (\w+)", text)) | set(re.findall(r"defined\((\w+)\)", text))
    return asked - set(re.findall(r"#define (\w+)", text))


@pytest.mark.parametrize("model", sorted(HERE.glob("*.pml")), ids=lambda path: path.stem)
def test_each_switch_of_a_model_is_tried(model: Path) -> None:
    tried = {word for case in HOLDS + BROKEN if case.split()[0] == model.stem for word in case.split()[1:]}
    # They only make a model smaller.
    assert switches_named_in(model) - tried - {"NOHINT", "NOOPENER"} == set()
