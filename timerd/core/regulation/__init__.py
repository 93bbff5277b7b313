"""Rules of queues: what an instance knows of them, how they are read and changed, and how they keep rows back."""

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
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack, LimitLabels, RuleLimits
from timerd.core.regulation.quota_meter import Excess, QuotaMeter, Use

__all__ = [
    "AllRules",
    "Excess",
    "HeldBack",
    "Identity",
    "KnownRules",
    "LimitChange",
    "LimitLabels",
    "QuotaMeter",
    "RuleChange",
    "RuleLimits",
    "Use",
    "change_limit",
    "change_rules",
    "list_limits",
    "list_regulated",
    "read_all_rules",
    "read_named_limits",
    "read_rules",
]
