"""A page token goes with its query, whatever may rightly differ from page to page."""

from __future__ import annotations

import pytest

from timerd.model.errors import Invalid
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.v1 import timer_service_pb2 as wire


def purge(**fields: object) -> wire.PurgeRequest:
    return wire.PurgeRequest(namespace="n", **fields)  # type: ignore[arg-type]


def test_each_page_of_a_purge_may_have_a_request_id_of_its_own() -> None:
    token = page_token(purge(request_id="first", force=True), b"after")
    assert after_of(purge(request_id="second", force=True, max_scanned=7, page_token=token), 5) == b"after"


def test_a_dry_run_does_not_go_on_as_a_forced_purge() -> None:
    token = page_token(purge(request_id="first"), b"after")
    with pytest.raises(Invalid, match="belongs to another query"):
        after_of(purge(request_id="first", force=True, page_token=token), 5)
