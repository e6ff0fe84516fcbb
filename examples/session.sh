#!/bin/sh
# session.sh - a session over the unix socket with curl: data in, a command, a file back, the end.
#
#   BAILEY=build/bailey examples/session.sh
set -eu
bailey=${BAILEY:-bailey}
folder=$(dirname "$0")

# Any command that needs the daemon starts it; its socket is in the status.
"$bailey" session ls >/dev/null
socket=$("$bailey" daemon status --json | sed 's/.*"socket":"\([^"]*\)".*/\1/')

# rest METHOD PATH [options of curl]: an error of the server is a failure of this script.
rest() {
    method=$1 address=$2
    shift 2
    curl --silent --show-error --fail-with-body --unix-socket "$socket" --request "$method" \
        "$@" "http://bailey/v1/$address"
}

id=$(rest POST sessions --data '{}' | sed 's/.*"id":"\([^"]*\)".*/\1/')
trap 'rest DELETE "sessions/$id" >/dev/null' EXIT

# Bytes of any size: a dataset is read-only in the box, a file is the guest's own.
rest PUT "sessions/$id/datasets/sales" --upload-file "$folder/sales.csv" >/dev/null
printf '%s\n' 'import csv, collections' \
    'pieces = collections.Counter()' \
    'for row in csv.DictReader(open("/tmp/data/sales.csv")):' \
    '    pieces[row["region"]] += int(row["pieces"] or 0)' \
    'with open("/tmp/output/pieces.csv", "w") as out:' \
    '    for region, count in sorted(pieces.items()):' \
    '        print(region, count, sep=",", file=out)' \
    'print(len(pieces), "regions")' |
    rest PUT "sessions/$id/files?path=/workspace/count.py" --upload-file - >/dev/null

# The one result, as 'bailey run --json' prints it.
result=$(rest POST "sessions/$id/exec" --data '{"argv": ["python3", "count.py"], "timeout": 20}')
case $result in
*'"exit_code":0,'*) echo "ran well" ;;
*) printf 'failed: %s\n' "$result" && exit 1 ;;
esac

# What it left in /tmp/output was saved on this machine, and can be asked for by name.
rest GET "sessions/$id/outputs/pieces.csv"
