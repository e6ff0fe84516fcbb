"""The checks of `make check-style` find what they are there for: each is given a small tree with one mistake."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
HEADER = """/*
 * {name} - a file of a test.
 *
 * Runs in: {processes}
 */
{includes}
"""


def tree(folder, files):
    (folder / "tools").mkdir()
    shutil.copy(TOOLS / "layers", folder / "tools" / "layers")
    for path, (processes, includes) in files.items():
        (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        text = HEADER.format(name=Path(path).name, processes=processes,
                             includes="\n".join(f'#include "{name}"' for name in includes))
        (folder / "src" / path).write_text(text)
    done = subprocess.run([sys.executable, folder / "tools" / "layers"], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def test_a_tree_without_a_mistake(tmp_path):
    assert tree(tmp_path, {"base/a.h": ("every process", []), "session/b.h": ("broker", ["base/a.h"])}) == (0, "")


@pytest.mark.parametrize("files, words", [
    ({"session/a.h": ("broker", []), "base/b.h": ("every process", ["session/a.h"])}, "base may not use session"),
    ({"session/a.h": ("launcher", [])}, "'Runs in: launcher' is not where it runs (broker, commands)"),
    ({"launcher/pool.h": ("launcher", []), "runtime/host/b.h": ("hosts", ["launcher/pool.h"])},
     "launcher/pool.h runs in launcher, this file in hosts, commands"),
    ({"api/rest/a.h": ("broker", []), "api/ws/b.h": ("broker", ["api/rest/a.h"])}, "api/ws may not use api/rest"),
    ({"nowhere/a.h": ("broker", [])}, "'nowhere' is not a room"),
], ids=["room", "line", "process", "door", "unknown room"])
def test_a_mistake_is_named(tmp_path, files, words):
    status, text = tree(tmp_path, files)
    assert status == 1 and words in text, text
