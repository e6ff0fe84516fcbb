"""Output is byte-exact up to the limit, UTF-8 is never cut, invalid bytes are counted."""
import pytest
import support

ONE_KB = {"SANDBOX_MAX_OUTPUT_KB": "1"}
MARK = "... (output truncated)"


def write(data, stream="stdout"):
    return f"import sys; sys.{stream}.buffer.write({data!r})"


def kept(text):
    assert text.endswith(MARK)
    return text[:-len(MARK)].rstrip("\n")


@pytest.mark.parametrize("char", ["é", "€", "𝄞"], ids=["2 bytes", "3 bytes", "4 bytes"])
@pytest.mark.parametrize("shift", range(4))
def test_a_sequence_is_never_cut(char, shift):
    size = len(char.encode())
    text = "a" * shift + char * 2000
    result = support.run_json(f"print({'a' * shift!r} + {char!r} * 2000, end='')", env=ONE_KB)
    whole = (1024 - shift) // size
    assert kept(result["stdout"]) == "a" * shift + char * whole
    assert result.meta["stdout_bytes"] == len(text.encode())
    assert result.meta.get("stdout_invalid_bytes", 0) == 0


@pytest.mark.parametrize("data, text, invalid", [
    (b"ok\xff\xfe end", "ok\ufffd\ufffd end", 2),
    (b"\x80", "\ufffd", 1),
    (b"a\xc3", "a\ufffd", 1),  # ends inside a sequence, without having been cut
    (b"\xc0\xaf", "\ufffd\ufffd", 2),  # overlong
    (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", 3),  # a surrogate
    (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd", 4),  # above U+10FFFF
])
def test_invalid_bytes_are_replaced_and_counted(data, text, invalid):
    result = support.run_json(write(data))
    assert result.meta["stdout_invalid_bytes"] == invalid
    assert result.meta["stdout_bytes"] == len(data)
    assert result["stdout"].replace("\ufffd", "") == text.replace("\ufffd", "")
    assert 1 <= result["stdout"].count("\ufffd") <= invalid


def test_invalid_bytes_on_stderr_are_counted_on_their_own():
    result = support.run_json(write(b"x\xff", "stderr"))
    assert result.meta["stderr_invalid_bytes"] == 1
    assert result.meta.get("stdout_invalid_bytes", 0) == 0


def test_nul_and_control_bytes_survive_json():
    data = bytes(range(32)) + b"\x7f"
    assert support.run_json(write(data))["stdout"].encode() == data


def test_line_ends_are_as_they_were():
    assert support.run_json(write(b"a\r\nb\rc\n\n"))["stdout"] == "a\r\nb\rc\n\n"


def test_output_without_a_newline_at_its_end_stays_so():
    assert support.run_json("print('x', end='')")["stdout"] == "x"


def test_a_mark_printed_by_the_program_is_not_a_truncation():
    result = support.run_json(f"print({MARK!r}, end='')")
    assert (result["stdout"], result.meta["truncated"]) == (MARK, False)


def test_bytes_are_counted_for_both_streams(way):
    code = write(b"12345") + "; sys.stderr.buffer.write(b'123')"
    meta = way.run_json(code).meta
    assert (meta["stdout_bytes"], meta["stderr_bytes"]) == (5, 3)


def test_single_byte_writes_arrive_in_order():
    code = "import os\nfor n in range(3000): os.write(1, b'%d\\n' % (n % 10))"
    assert support.run_json(code)["stdout"] == "".join(f"{n % 10}\n" for n in range(3000))
