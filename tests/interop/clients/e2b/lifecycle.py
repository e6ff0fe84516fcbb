"""lifecycle.py - sandboxes: create, connect, information, lists, timeouts, metadata, end."""
import datetime
import uuid

import pytest
from e2b import Sandbox, SandboxException, SandboxQuery, SandboxState

try:
    from e2b import SandboxNotFoundException as Missing
except ImportError:
    from e2b import NotFoundException as Missing


def test_a_sandbox_tells_what_it_was_made_with(own):
    named = Sandbox.create("base", metadata={"purpose": "a b=c&d"}, envs={"COLOUR": "green"}, timeout=200)
    try:
        info = named.get_info()
        assert (info.sandbox_id, info.template_id, info.metadata) == (named.sandbox_id, "base", {"purpose": "a b=c&d"})
        assert info.state == SandboxState.RUNNING and info.memory_mb > 0 and info.cpu_count > 0
        life = (info.end_at - info.started_at).total_seconds()
        assert 199 <= life <= 201, life
        assert named.commands.run("echo $COLOUR").stdout == "green\n"
        assert named.sandbox_id.isalnum(), "the id is the label of a host"
    finally:
        named.kill()


def test_a_template_that_is_not_there_is_not_found():
    with pytest.raises(Exception, match="404"):
        Sandbox.create("no-such-template")


def test_what_cannot_be_given_is_refused_with_a_sentence():
    with pytest.raises(SandboxException, match="rules for a single sandbox are not supported"):
        Sandbox.create(network={"deny_out": ["0.0.0.0/0"]})
    with pytest.raises(SandboxException, match="cannot be greater than"):
        Sandbox.create(timeout=1000000)


def test_kill_is_true_once(own):
    assert own.is_running() is True
    assert own.kill() is True
    assert own.kill() is False
    assert own.is_running() is False
    with pytest.raises(Missing):
        own.get_info()
    assert Sandbox.kill("0" * 32) is False


def test_connecting_gives_the_same_sandbox(own):
    own.files.write("here.txt", "yes")
    again = Sandbox.connect(own.sandbox_id)
    assert again.sandbox_id == own.sandbox_id
    assert again.files.read("here.txt") == "yes"
    with pytest.raises(Missing):
        Sandbox.connect("f" * 32)


def test_connecting_never_shortens_and_set_timeout_does(own):
    before = own.get_info().end_at
    Sandbox.connect(own.sandbox_id, timeout=5)
    assert own.get_info().end_at == before
    own.set_timeout(1000)
    later = own.get_info().end_at
    assert later > before + datetime.timedelta(seconds=500)
    own.set_timeout(60)
    assert own.get_info().end_at < before


def test_lists_are_filtered_ordered_and_paged():
    mark = uuid.uuid4().hex
    made = [Sandbox.create(metadata={"mark": mark, "n": str(i), "odd one": "a=b&c%"}) for i in range(3)]
    ids = [one.sandbox_id for one in made]
    try:
        def listed(**more):
            pages, found = Sandbox.list(**more), []
            while pages.has_next:
                found += pages.next_items()
            return [one.sandbox_id for one in found]
        assert listed(query=SandboxQuery(metadata={"mark": mark})) == ids[::-1], "the newest first"
        assert listed(query=SandboxQuery(metadata={"mark": mark}), limit=1) == ids[::-1]
        assert listed(query=SandboxQuery(metadata={"mark": mark, "odd one": "a=b&c%", "n": "1"})) == [ids[1]]
        assert listed(query=SandboxQuery(metadata={"mark": "other"})) == []
        assert listed(query=SandboxQuery(metadata={"mark": mark}, state=[SandboxState.PAUSED])) == []
        pages = Sandbox.list(query=SandboxQuery(metadata={"mark": mark}), limit=2)
        assert len(pages.next_items()) == 2 and pages.has_next
        assert len(pages.next_items()) == 1 and not pages.has_next
    finally:
        for one in made:
            one.kill()


def test_snapshots_and_templates_are_refused_with_a_sentence(own):
    if hasattr(own, "create_snapshot"):
        with pytest.raises(SandboxException, match="makes no snapshots"):
            own.create_snapshot()


def test_an_old_key_is_refused():
    with pytest.raises(Exception, match="401|[Aa]uth|Unauthorized"):
        Sandbox.create(api_key="e2b_" + "0" * 40)


def test_metrics_are_those_of_the_sandbox(own):
    own.commands.run("true")
    metrics = own.get_metrics()
    assert metrics, "there is a sample of this moment"
    last = metrics[-1]
    assert last.mem_total > 0 and last.disk_total > 0 and last.cpu_count > 0
    past = datetime.datetime(2020, 1, 1)
    assert own.get_metrics(start=past, end=past + datetime.timedelta(seconds=10)) == []
