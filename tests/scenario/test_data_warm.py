"""Tables read and written by an interpreter that was forked with the whole data stack loaded: libraries with threads
of their own have to work after the fork."""
import pytest

import data_template
import serve
import support


@pytest.fixture(scope="module")
def yard():
    data_template.state()
    with serve.Daemon(data_template.env({"SANDBOX_POOL_SIZE": "0", "SANDBOX_TEMPLATE": "data"})) as running:
        yield running


CODE = """
import sys
loaded = "pyarrow" in sys.modules
import pandas as pd, polars as pl
frame = pl.DataFrame({"city": ["Oslo", "Rome"] * 50000, "degrees": [15.2, 24.1] * 50000})
pandas = frame.to_pandas()
pandas.to_parquet("/tmp/a.parquet")
print(pl.read_parquet("/tmp/a.parquet").equals(frame), pd.read_parquet("/tmp/a.parquet")["city"].nunique(), loaded)
"""


def in_a_session(yard):
    session = yard.post("/v1/sessions", {}, status=201)["id"]
    done = yard.post(f"/v1/sessions/{session}/code", {"code": CODE})
    assert done["exit_code"] == 0, done
    assert yard.bailey("session", "rm", session).status == 0
    return done["stdout"]


def test_parquet_after_the_fork(yard):
    """The first sessions can come before the zygote is ready, and then have a cold interpreter."""
    serve.polled(lambda: in_a_session(yard), lambda said: said == "True 2 True\n", "a kernel with the data stack loaded",
                 timeout=support.PATIENCE)
