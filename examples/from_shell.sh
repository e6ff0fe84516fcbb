#!/bin/sh
# from_shell.sh - runs code from a shell script and acts on how it ended, without a JSON parser.
#
#   BAILEY=build/bailey examples/from_shell.sh
set -eu
bailey=${BAILEY:-bailey}

# Most scripts need no JSON: output is the program's, and the exit status tells the rest.
status=0
answer=$("$bailey" run --quiet --timeout 1 -c 'print(6 * 7)') || status=$?
echo "status $status, answer $answer"

status=0
"$bailey" run --quiet --timeout 1 -c 'while True: pass' 2>/dev/null || status=$?
case $status in
0) echo "it ended well" ;;
124) echo "status 124: it ran too long" ;;
125) echo "status 125: bad input, or bailey itself" ;;
126 | 127) echo "status $status: refused, or no such program" ;;
*) echo "status $status: the program's own" ;;
esac

# Facts of the JSON can be matched as they are: it has no blanks, and a guest that prints
# "timed_out":true gets its quotes escaped, so it cannot forge a match.
result=$("$bailey" run --json --memory 64m -c 'x = bytearray(10**9)') || true
case $result in
*'"timed_out":true'*) echo "timed out" ;;
*'"oom_killed":true'*) echo "out of memory" ;;
*'"exit_code":0,'*) echo "fine" ;;
*) echo "failed" ;;
esac
