"""Rules of queues: what an instance knows of them, how they are read and changed, and how they keep rows back."""

from timerd.core.regulation.adaptive_limit import AdaptiveLimit, Sign
from timerd.core.regulation.adaptive_limits import AdaptiveLimits
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
from timerd.core.regulation.draw_order import DrawOrder, DrawStage
from timerd.core.regulation.holds import Holds, KeyHolds, labels_of
from timerd.core.regulation.home_keeping import HomeBooks, HomeRegister, home_left_by, home_left_with
from timerd.core.regulation.keeping import AnyKeeping, change_keeping, read_keeping, taken_by, with_lease
from timerd.core.regulation.key_limits import RuleKeyLimits
from timerd.core.regulation.key_permit_keeper import KeyPermitKeeper, KeysLeft
from timerd.core.regulation.key_permits import BorrowedKeys, KeyInHand, KeysGrant, KeysStated, KeyStated
from timerd.core.regulation.key_rates import KeyRates, RatesOfKeys
from timerd.core.regulation.key_token_keeper import KeyTokenKeeper
from timerd.core.regulation.key_use import KeyUse
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.lender import AnyStated, Lender
from timerd.core.regulation.lent_key_rates import MOST_ASKED, KeyAsk, LentKeyRates
from timerd.core.regulation.lent_keys import LentKeys
from timerd.core.regulation.lent_limits import LentLimits
from timerd.core.regulation.lent_rates import LentRate, LentRates
from timerd.core.regulation.limit_keeping import LimitBooks, LimitRegister
from timerd.core.regulation.limits import HeldBack, RuleLimits, Why
from timerd.core.regulation.limits_of_keys import LimitsOfKeys
from timerd.core.regulation.permit_keeper import Left, PermitKeeper
from timerd.core.regulation.permits import BorrowedPermits, Grant, Hands, Stated
from timerd.core.regulation.quota_meter import Excess, QuotaMeter, Use
from timerd.core.regulation.ruled_queues import RuledQueues
from timerd.core.regulation.shared_key_limits import KeyAtLimit, SharedKeyLimits
from timerd.core.regulation.standstills import Standstills
from timerd.core.regulation.token_keeper import AHEAD_MS, TokenKeeper
from timerd.core.regulation.tokens import DrawnTokens, TokenGrant
from timerd.model.keeping import LimitedKey, LimitLabels

__all__ = [
    "AdaptiveLimit",
    "AdaptiveLimits",
    "AllRules",
    "AHEAD_MS",
    "AnyKeeping",
    "AnyStated",
    "BorrowedKeys",
    "BorrowedPermits",
    "KeyInHand",
    "KeyPermitKeeper",
    "KeyStated",
    "KeysGrant",
    "KeysLeft",
    "KeysStated",
    "KeyAsk",
    "MOST_ASKED",
    "KeyRates",
    "KeyTokenKeeper",
    "LentKeyRates",
    "LentKeys",
    "LentRate",
    "LimitsOfKeys",
    "RatesOfKeys",
    "LimitedKey",
    "HomeBooks",
    "HomeRegister",
    "Lender",
    "LimitBooks",
    "LimitRegister",
    "home_left_by",
    "home_left_with",
    "DrawnTokens",
    "DrawOrder",
    "DrawStage",
    "LentRates",
    "TokenGrant",
    "TokenKeeper",
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
    "KeyAtLimit",
    "KeyUse",
    "Holds",
    "KeyHolds",
    "Identity",
    "KnownRules",
    "LentLimits",
    "LimitChange",
    "LimitLabels",
    "QuotaMeter",
    "RuleChange",
    "RuleKeyLimits",
    "RuleLimits",
    "RuledQueues",
    "SharedKeyLimits",
    "Sign",
    "Standstills",
    "Use",
    "Evidence",
    "Why",
    "change_keeping",
    "change_limit",
    "change_rules",
    "labels_of",
    "list_limits",
    "list_regulated",
    "read_all_rules",
    "read_keeping",
    "read_named_limits",
    "read_rules",
    "taken_by",
    "with_lease",
]
