#!/usr/bin/env bash
# compute-sanitizer's memcheck, racecheck, synccheck and initcheck over every op of a card, a line each: "clean", the number
# of errors, or that it did not end in time. Exit status 1 unless every line says clean.
#
#   tools/check_sanitizers.sh build/cuda/checkkernels [OP...]      without OP: all of kernels/ops/ops.h
#
#   SANITIZER=compute-sanitizer   TOOLS="memcheck racecheck synccheck initcheck"   LIMIT=120 (seconds each)   JOBS=4   LOGS=folder
#
# Not for racecheck: calls that go to cuBLASLt and cuDNN, and clusters of more than four blocks (checkkernels --racecheck).
set -uo pipefail
[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 64; }
export program=$1 sanitizer=${SANITIZER:-compute-sanitizer} limit=${LIMIT:-120}
shift
ops=("$@")
[ $# -gt 0 ] || mapfile -t ops < <(sed -n '/define SAC_OPS/,/[^\\]$/s/.*X(\([a-z_]*\)).*/\1/p' "$(dirname "$0")/../kernels/ops/ops.h")
export folder=${LOGS:-$(mktemp -d)}
mkdir -p "$folder"
[ -n "${LOGS:-}" ] || trap 'rm -rf "$folder"' EXIT

check() { # TOOL OP
    local log=$folder/$1.$2 start=$SECONDS fewer='' status errors cases verdict
    [ "$1" = racecheck ] && fewer=--racecheck
    timeout -k 10 "$limit" "$sanitizer" --tool "$1" --print-limit 5 \
        "$program" --backend cuda --small $fewer --op "$2" >"$log" 2>&1
    status=$?
    errors=$(sed -n 's/.* SUMMARY: \([0-9]*\) .*/\1/p' "$log" | head -n 1)
    cases=$(awk '$3 == "cases" { n += $2 } END { print n + 0 }' "$log")
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then verdict="did not end within $limit s"
    elif [ "${errors:-0}" != 0 ]; then verdict="$errors errors"
    elif [ $status -eq 0 ] && [ "$cases" -eq 0 ]; then verdict='ran nothing'
    elif [ $status -ne 0 ] || [ -z "$errors" ] || ! grep -q 'all good' "$log"; then verdict="failed: $(tail -n 1 "$log")"
    else verdict=clean
    fi
    printf '%-9s  %-18s %5d cases %4d s   %s\n' "$1" "$2" "$cases" $((SECONDS - start)) "$verdict"
}
export -f check

read -ra tools <<<"${TOOLS:-memcheck racecheck synccheck initcheck}"
for tool in "${tools[@]}"; do
    printf '%s\n' "${ops[@]/#/$tool }"
done | xargs -P "${JOBS:-4}" -L 1 bash -c 'check "$0" "$1"' | tee "$folder/summary"
[ "$(grep -c ' clean$' "$folder/summary")" -eq $((${#tools[@]} * ${#ops[@]})) ] && exit
trap - EXIT
echo "what was said: $folder"
exit 1
