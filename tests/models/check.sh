#!/bin/sh
# check.sh MODEL [-DSWITCH ...]: searches every state of the model, within the given switches, and prints one line.
# Exit code: 0 every promise holds in every state; 1 a promise is broken; 2 no verdict (does not build, or not all states were seen).
# Environment: TRAIL=1 prints the steps that lead to the broken promise; DEPTH (steps), MEMORY (MB) and LIMIT (seconds) bound the search;
# OPTIMIZE is told to the compiler: -O0 where the search is shorter than compiling.
model=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
name=$(basename "$1" .pml)
shift
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 2' INT TERM
cp "$model" "$scratch/m.pml" && cd "$scratch" || exit 2

nice spin -a "$@" m.pml >built 2>&1 &&
  nice gcc "${OPTIMIZE:--O1}" -w -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -DMEMLIM="${MEMORY:-4000}" -o pan pan.c >>built 2>&1 ||
  { echo "$name $*: does not build"; cat built; exit 2; }
# -E: a process that waits for ever is no finding, the models say themselves what must be true at rest.
nice timeout "${LIMIT:-100}" ./pan -m"${DEPTH:-1000000}" -E >found 2>&1
code=$?

errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' found)
states=$(awk '/states, stored/ { print $1 }' found)
if [ "$code" -ne 0 ] || [ -z "$errors" ] || grep -q 'max search depth too small\|reached -DMEMLIM\|out of memory' found; then
  echo "$name $*: NO VERDICT, the search was cut short (pan's code $code, ${states:-unknown} states)"
  exit 2
elif [ "$errors" -eq 0 ] && ! grep -q 'Search not completed' found; then
  echo "$name $*: holds in all of $states states"
elif grep -q 'assertion violated' found; then
  echo "$name $*: BROKEN after $states states: $(sed -n 's/^pan:1: \(.*\) (at depth.*/\1/p' found)"
  [ -z "$TRAIL" ] || spin -t -p -g "$@" m.pml
  exit 1
else
  echo "$name $*: NO VERDICT"
  cat found
  exit 2
fi
