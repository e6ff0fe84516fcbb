"""What a level cannot hold is said to the reader, not only known to the tests."""
import re

import not_tried
import pytest
import support
from not_held import NOT_HELD

LAST = 87  # of the list of attacks


@pytest.mark.parametrize("attack, level", sorted(NOT_HELD), ids=str)
def test_documented_in_security_md(attack, level):
    text = (support.REPO / "docs" / "security.md").read_text()
    lines = [line for line in text.splitlines() if re.search(rf"\b[Aa]ttack {attack}\b", line)]
    assert lines, f"docs/security.md has no line with 'attack {attack}'"
    assert any(level in line for line in lines), f"no line on attack {attack} names '{level}'"


def test_every_reason_is_a_reason():
    assert all(len(reason) > 20 and number in range(1, 76)
               for (number, _), reason in NOT_HELD.items())


def cells_of_the_table():
    """{number of an attack: the texts of its columns}"""
    text = (support.REPO / "docs" / "security.md").read_text()
    table = text.partition("<!-- attacks: begin")[2].partition("<!-- attacks: end")[0]
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", table, re.M)
    return {int(number): [cell.strip() for cell in cells.split("|")[1:]] for number, cells in rows}, table


def test_every_attack_has_a_verdict_or_a_reason_in_every_column():
    rows, table = cells_of_the_table()
    assert set(rows) | set(not_tried.WITHOUT_ROW) == set(range(1, LAST + 1))
    for number, cells in rows.items():
        for cell in cells:
            letter = cell[2:] if cell.startswith("- ") else None
            assert cell.startswith(("held (", "not tried")) or letter in not_tried.REASONS, (number, cell)
    for text in (*not_tried.REASONS.values(), *not_tried.WITHOUT_ROW.values()):
        assert text in table, "tools/print-escape-table prints it"
