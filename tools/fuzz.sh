#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, for the given time
# each: fuzz.sh 30s. Inputs that fail are kept in testdata/fuzz of the package.
set -euo pipefail
cd "$(dirname "$0")/.."

go=${GO:-go}
budget=${1:?usage: fuzz.sh TIME, for example 30s}
count=0

packages=$("$go" list ./...)
for package in $packages; do
  # A package without a fuzz target lists none.
  targets=$("$go" test -list '^Fuzz' "$package" | sed -n '/^Fuzz/p')
  for target in $targets; do
    echo "== $package $target"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$budget" "$package"
    count=$((count + 1))
  done
done

if ((count == 0)); then
  echo "fuzz.sh: no fuzz target in ./..." >&2
  exit 1
fi
echo "fuzz.sh: $count targets, $budget each, no failure"
