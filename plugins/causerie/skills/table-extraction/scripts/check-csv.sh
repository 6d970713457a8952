#!/bin/sh
# Tells what a CSV file holds: rows, columns, lines that do not fit, empty cells, sums of numeric columns.
# Usage: check-csv.sh FILE. Needs nothing but a POSIX awk; a cell may not hold a line feed.
set -eu
if [ $# -ne 1 ] || [ ! -f "$1" ]; then
    echo "usage: check-csv.sh FILE" >&2
    exit 2
fi
LC_ALL=C awk '
function cells(line, out,    count, cell, quoted, at, c) {
    count = 0; cell = ""; quoted = 0
    for (at = 1; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (quoted) {
            if (c != "\"") cell = cell c
            else if (substr(line, at + 1, 1) == "\"") { cell = cell "\""; at++ }
            else quoted = 0
        } else if (c == "\"") quoted = 1
        else if (c == ",") { out[++count] = cell; cell = "" }
        else cell = cell c
    }
    out[++count] = cell
    return count
}
{ sub(/\r$/, "") }
NR == 1 { columns = cells($0, head); next }
{
    rows++
    found = cells($0, row)
    if (found != columns) { printf "line %d: %d cells instead of %d\n", NR, found, columns; bad++ }
    for (at = 1; at <= columns; at++) {
        if (at > found || row[at] == "") { empty[at]++; continue }
        filled[at]++
        if (row[at] ~ /^-?[0-9]+(\.[0-9]+)?$/) { numbers[at]++; sum[at] += row[at] }
    }
}
END {
    printf "rows: %d\ncolumns: %d\n", rows, columns
    for (at = 1; at <= columns; at++) {
        printf "%s: %d empty", head[at], empty[at]
        if (filled[at] > 0 && numbers[at] == filled[at]) printf ", sum %.2f", sum[at]
        else if (numbers[at] > 0) printf ", %d of %d are numbers", numbers[at], filled[at]
        printf "\n"
    }
    exit bad > 0
}' "$1"
