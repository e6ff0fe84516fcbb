"""One guest or one key sends as much as it can: the broker stays small, and others are answered.

The attacks are those of tests/load/stall.py, which also measures how fast the answers are (`make load`).
"""
import sys
from pathlib import Path

import pytest
import support
import tenants

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "load"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import stall  # noqa: E402  (the path has to be there first)

SECONDS = 2
ATTACKS = (
    stall.event_of_many_values, stall.event_of_many_keys, stall.many_events, stall.long_listing,
    stall.json_of_values, stall.json_of_numbers, stall.execute_of_values, stall.held_bodies,
    stall.held_mcp_bodies, stall.mcp_values, stall.websocket_values, stall.websocket_unfinished,
    stall.websocket_text, stall.websocket_input,
    stall.deaf_to_results, stall.deaf_to_events, stall.queued_cells, stall.edited_files,
    stall.runs_with_files, stall.listed_processes, stall.volley_of_listings, stall.e2b_listing, stall.e2b_values,
    stall.e2b_started_commands, stall.e2b_watchers, stall.e2b_form_of_files,
)
# These open connections one after another until there are LIMIT_CLIENTS or the time is over.
CONNECTIONS_SECONDS = 10
OF_CONNECTIONS = (
    stall.many_streams, stall.many_websockets, stall.many_kept_connections, stall.many_half_requests,
)


@pytest.mark.attack(80)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_one_attacker(attack):
    """The probe inside fails when /healthz or another tenant's cell is not answered with 200."""
    judge(attack, SECONDS)


@pytest.mark.parametrize("attack", OF_CONNECTIONS, ids=lambda attack: attack.__name__)
def test_one_key_opens_all_connections(attack):
    row = judge(attack, CONNECTIONS_SECONDS)
    served = row.said.get(200, 0) + row.said.get(101, 0)
    if attack in (stall.many_streams, stall.many_websockets):
        assert 0 < served <= stall.TENANT_CONNECTIONS, row.line()


def judge(attack, seconds):
    support.need_sessions()
    with stall.settings(attack) as env, tenants.Server(env) as server:
        broker = server.get("/v1/info")["broker_pid"]
        row = stall.measure(attack, server, seconds)
        assert server.get("/v1/info")["broker_pid"] == broker, "it was another broker's memory"
    assert row.said != "failed" and row.count > 0, row.line()
    assert row.growth < stall.GROWTH_MB, row.line()
    return row
