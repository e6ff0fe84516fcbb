# words.sh - the most frequent words of standard input, with the tools of the box's /usr.
#
#   bailey run --stdin words.sh -- 5 <README.md
set -euo pipefail
tr -cs '[:alpha:]' '\n' | tr '[:upper:]' '[:lower:]' | awk 'length($0) > 3' |
    sort | uniq -c | sort -k1,1nr -k2 | awk -v most="${1:-10}" 'NR <= most'
