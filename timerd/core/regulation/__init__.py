"""Rules of queues: what an instance knows of them, how they are read and changed, and how they keep rows back."""

from timerd.core.regulation.changing import (
    Identity,
    RuleChange,
    change_rules,
    list_regulated,
    read_all_rules,
    read_rules,
)
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import RuleLimits
from timerd.core.regulation.quota_meter import Excess, QuotaMeter, Use

__all__ = [
    "Excess",
    "QuotaMeter",
    "RuleChange",
    "RuleLimits",
    "Use",
    "Identity",
    "KnownRules",
    "change_rules",
    "list_regulated",
    "read_all_rules",
    "read_rules",
]
