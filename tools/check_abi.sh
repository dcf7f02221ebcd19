#!/usr/bin/env bash
# What programs linked with libsaccade.so rely on (its functions, and the structs, enums and callbacks of the public headers) against
# what tests/golden/libsaccade.abi has of it. Needs libabigail (abigail-tools) and a library with debug information (preset release).
#   tools/check_abi.sh LIBRARY [HEADERS]   says what differs, exit 1; HEADERS: the folder they lie in (include/saccade)
#   tools/check_abi.sh --renew LIBRARY     writes the file anew
# A changed or removed struct, enum or function breaks programs: raise the second number of the version too. What is only added does not.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=tests/golden/libsaccade.abi
usage() { echo "usage: tools/check_abi.sh LIBRARY [HEADERS] | --renew LIBRARY" >&2; exit 64; }
renew=
[ "${1:-}" != --renew ] || { renew=1; shift; }
[ $# -ge 1 ] && [ $# -le 2 ] || usage
command -v abidw >/dev/null || { echo "check_abi.sh: libabigail is missing: apt-get install abigail-tools" >&2; exit 69; }
library=$(realpath "$1") headers=$(realpath "${2:-include/saccade}")
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# Types that no public header defines are opaque to programs, and left out; so is what differs from system to system.
abidw --exported-interfaces-only --headers-dir "$headers" --drop-private-types --no-show-locs --no-corpus-path --no-comp-dir-path \
  --no-elf-needed --no-architecture --no-parameter-names --no-write-default-sizes --out-file "$found" "$library"
grep -q "<class-decl" "$found" || { echo "check_abi.sh: $1 has no debug information: build with -g" >&2; exit 65; }
if [ -n "$renew" ]; then
  cat "$found" >"$kept"
  exit
fi
code=0
abidiff --harmless "$kept" "$found" || code=$?
[ $code -eq 0 ] && exit
[ $((code & 3)) -eq 0 ] || exit 69
echo "check_abi.sh: $1 is not what $kept has. If that is meant: tools/check_abi.sh --renew $1" >&2
exit 1
