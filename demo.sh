#!/usr/bin/env bash
# Builds Saccade and lets the demo model answer questions about the pictures and videos in samples/.
# Installs the Debian packages that are missing (through sudo when you are not root). Fails when an answer is wrong.
#   ./demo.sh          some questions
#   ./demo.sh all      every question of samples/questions.jsonl
set -euo pipefail
cd "$(dirname "$0")"

tools/packages.sh install build
echo "Building build/release/saccade, which takes some minutes the first time (build/demo.log)"
mkdir -p build
tell() { # how far it is, by the last "[3/40]" of ninja: every second on a terminal, else every half minute
  local pause=30 at
  [ ! -t 1 ] || pause=1
  while sleep $pause >/dev/null 2>&1; do
    at=$(grep -oE '^\[[0-9]+/[0-9]+\]' build/demo.log 2>/dev/null | tail -n 1) || continue
    if [ -t 1 ]; then printf '\r   %s ' "$at"; else echo "   $at"; fi
  done
}
tell &
trap "kill $! 2>/dev/null" EXIT
if ! { cmake --preset release && cmake --build --preset release --target saccade_command; } >build/demo.log 2>&1; then
  tail -n 40 build/demo.log
  echo "demo.sh: the build failed; the whole log is in build/demo.log" >&2
  exit 1
fi
{ kill $! && wait $!; } 2>/dev/null || true
trap - EXIT
[ ! -t 1 ] || printf '\r\033[K'

# A member of one of our own lines of JSON: a text without quotes in it, or a number.
member() { printf %b "$(grep -oE "\"$1\": *(\"[^\"]*\"|[0-9]+)" <<<"$2" | sed -E 's/^[^:]*: *//; s/^"(.*)"$/\1/')"; }

right=0 wrong=0
declare -A asked
while IFS= read -r line; do
  file=samples/$(member file "$line") question=$(member question "$line") wanted=$(member answer "$line")
  asked[$file]=$((${asked[$file]:-0} + 1))
  limit=2 # questions about a file; the longest video only when all are asked
  [ "$(member n_frames "$line")" -le 64 ] || limit=0
  [ "${1:-}" = all ] || [ "${asked[$file]}" -le $limit ] || continue
  [ "${asked[$file]}" -gt 1 ] || printf '\n%s\n' "$file"
  start=$(date +%s%N)
  answer=$(build/release/saccade ask "--$(member kind "$line" | sed s/picture/image/)" "$file" "$question") ||
    answer="(failed with code $?)"
  hundredths=$((($(date +%s%N) - start) / 10000000))
  if [ "$answer" = "$wanted" ]; then
    verdict=right right=$((right + 1))
  else
    verdict="WRONG, it is: $wanted" wrong=$((wrong + 1))
  fi
  printf '  %s\n    %s   (%s; %d.%02d s)\n' "${question//$'\n'/$'\n'  }" "$answer" "$verdict" \
    $((hundredths / 100)) $((hundredths % 100))
done <samples/questions.jsonl

printf '\n%d answers right, %d wrong\n' $right $wrong
[ $wrong -eq 0 ] && [ $right -gt 0 ] || exit 1
echo "Ask it yourself:   build/release/saccade ask --image samples/picture0000.png \"Describe the image.\""
echo "                   (it knows drawn shapes, their colours and places, and numbers: models/demo/README.md)"
echo "With your model:   build/release/saccade ask -m MODEL --image FILE \"...\""
