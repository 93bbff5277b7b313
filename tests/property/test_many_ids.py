"""The ids of a batch, read all at once, are what each of them is by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from timerd.model.identity import TaskId, mac_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.services.calls.many_ids import all_genuine
from timerd.services.calls.targets import genuine

SECRET = b"secret"
prefixes = st.sampled_from([b"a" * 12, b"\xff" * 12, bytes(range(12))])
positions_ms = st.one_of(st.sampled_from([0, 299_999, 300_000, -1]), st.integers(-(1 << 62), 1 << 62))
words = st.text("ABab-_+/=01 é", min_size=0, max_size=2)


@st.composite
def ids(draw: st.DrawFn) -> str:
    position_ms, prefix = draw(positions_ms), draw(prefixes)
    shard, scope, priority = draw(st.integers(0, 3)), draw(st.sampled_from([1, (1 << 63) - 1])), draw(st.integers(0, 9))
    home = Partition(TIME_SCOPE, bucket_of(position_ms), shard)
    mac = mac_of(SECRET, "default", prefix, home, scope, priority)
    return str(TaskId(position_ms, shard, scope, priority, prefix, draw(st.integers(0, (1 << 32) - 1)), mac))


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """As long as before, or not."""
    text, at, word = draw(ids()), draw(st.integers(0, 59)), draw(words)
    return text[:at] + word + text[at + draw(st.sampled_from([0, len(word)])) :]


@given(texts=st.lists(ids(), min_size=1, max_size=20))
def test_genuine_ids_are_read_together(texts: list[str]) -> None:
    assert all_genuine(SECRET, "default", texts) == [genuine(SECRET, "default", text) for text in texts]
    assert all_genuine(SECRET, "other", texts) is None


@given(texts=st.lists(st.one_of(ids(), spoilt()), max_size=8))
def test_what_is_read_together_is_what_each_is_by_itself(texts: list[str]) -> None:
    each = [genuine(SECRET, "default", text) for text in texts]
    assert all_genuine(SECRET, "default", texts) in (each, None)
    if None in each:
        assert all_genuine(SECRET, "default", texts) is None
