"""What a level cannot hold is said to the reader, not only known to the tests."""
import re

import pytest
import support
from not_held import NOT_HELD


@pytest.mark.parametrize("attack, level", sorted(NOT_HELD), ids=str)
def test_documented_in_security_md(attack, level):
    text = (support.REPO / "docs" / "security.md").read_text()
    lines = [line for line in text.splitlines() if re.search(rf"\b[Aa]ttack {attack}\b", line)]
    assert lines, f"docs/security.md has no line with 'attack {attack}'"
    assert any(level in line for line in lines), f"no line on attack {attack} names '{level}'"


def test_every_reason_is_a_reason():
    assert all(len(reason) > 20 and number in range(1, 76)
               for (number, _), reason in NOT_HELD.items())
