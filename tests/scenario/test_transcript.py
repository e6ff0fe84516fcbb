"""docs/mcp-transcript.md, one analysis over `bailey mcp` with two datasets, mistakes and plots: the calls are made
again, and a model reads the same."""
import subprocess

import data_template
import support


def test_a_model_reads_what_the_page_shows(room):
    data_template.state()
    before = set(support.descendants())
    done = subprocess.run([support.REPO / "tools" / "mcp-transcript", "--check"], text=True, capture_output=True, env={
        **support.environment(room, data_template.env()), "BAILEY": str(support.BAILEY)})
    # Its daemon has stopped and comes to us.
    support.wait_until(lambda: support.reap_orphans() or not set(support.descendants()) - before, "it has ended")
    assert done.returncode == 0, done.stderr
