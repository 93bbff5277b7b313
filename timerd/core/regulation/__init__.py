"""Rules of queues: what an instance knows of them, how they are read and changed, and how they keep rows back."""

from timerd.core.regulation.breaker import BreakerState, Evidence, QueueBreaker
from timerd.core.regulation.breakers import Breakers
from timerd.core.regulation.changing import (
    AllRules,
    Identity,
    LimitChange,
    RuleChange,
    change_limit,
    change_rules,
    list_limits,
    list_regulated,
    read_all_rules,
    read_named_limits,
    read_rules,
)
from timerd.core.regulation.holds import Holds, labels_of
from timerd.core.regulation.keeping import change_keeping, left_by, left_with, read_keeping, taken_by
from timerd.core.regulation.key_limits import RuleKeyLimits
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.lent_limits import LentLimits
from timerd.core.regulation.limits import HeldBack, RuleLimits, Why
from timerd.core.regulation.permit_keeper import Left, PermitKeeper
from timerd.core.regulation.permits import BorrowedPermits, Grant, Hands, Stated
from timerd.core.regulation.quota_meter import Excess, QuotaMeter, Use
from timerd.core.regulation.standstills import Standstills
from timerd.model.keeping import LimitLabels

__all__ = [
    "AllRules",
    "BorrowedPermits",
    "Grant",
    "Hands",
    "Left",
    "PermitKeeper",
    "Stated",
    "QueueBreaker",
    "BreakerState",
    "Breakers",
    "Excess",
    "HeldBack",
    "Holds",
    "Identity",
    "KnownRules",
    "LentLimits",
    "LimitChange",
    "LimitLabels",
    "QuotaMeter",
    "RuleChange",
    "RuleKeyLimits",
    "RuleLimits",
    "Standstills",
    "Use",
    "Evidence",
    "Why",
    "change_keeping",
    "change_limit",
    "change_rules",
    "labels_of",
    "left_by",
    "left_with",
    "list_limits",
    "list_regulated",
    "read_all_rules",
    "read_keeping",
    "read_named_limits",
    "read_rules",
    "taken_by",
]
