#!/bin/sh
# Its output is its answer. Its prompt comes on its input, which it need not read.
set -eu
lines=$(git ls-files -z | xargs -0 cat 2>/dev/null | wc -l | tr -d ' ')
echo "@scribe there are $lines lines; please write that down."
