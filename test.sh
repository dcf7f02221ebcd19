#!/usr/bin/env bash
# Builds Saccade in several ways and runs all tests in each.
#   ./test.sh                   dev, asan, tsan and release, and cuda where nvcc is
#   ./test.sh asan release      only these
#   ./test.sh fuzz              the fuzz targets, FUZZ_SECONDS (60) each; needs clang
# The last line is "N passed, M failed": single tests, summed over the builds. Logs: build/<name>.log.
set -uo pipefail
cd "$(dirname "$0")"

presets=("$@")
if [ $# -eq 0 ]; then
  presets=(dev asan tsan release)
  command -v nvcc >/dev/null && presets+=(cuda)
fi
jobs=$(nproc)
passed=0 failed=0 skipped=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:suppressions=$PWD/tests/tsan.supp}

tools/packages.sh install test || exit

# The server's tests ask it through the openai package; where it cannot be had they say so and are skipped.
if ! build/venv/bin/python -c 'import openai' 2>/dev/null; then
  mkdir -p build
  { python3 -m venv build/venv && build/venv/bin/pip install -q openai; } >build/venv.log 2>&1 ||
    echo "the Python package openai cannot be installed (build/venv.log): its tests are skipped"
fi

# What threads share is in a few places; the rest would only be slower under ThreadSanitizer.
threaded='test_base test_vision_cache test_session test_batch serve_parallel'

# What the CUDA backend changes; without a card it shows that everything else still passes.
device='test_device test_method_device test_format_device test_vit_device test_device_tower test_batch_device test_decoder_device test_session cli_device'

# Counts the tests within ctest's log: cmocka's programs and the tests of the command have many each; any other
# program is one. Prints "passed failed skipped" and, on standard error, what failed and was skipped.
count() {
  awk '
    function finish() {
      if (name == "") return
      bad = run - ok - skip
      if (run == 0 || (result == "failed" && bad == 0)) {
        if (result == "passed") ok++; else if (result == "skipped") skip++; else bad++
      }
      if (bad) print "  FAILED " name list > "/dev/stderr"
      else if (skip) print "  skipped in " name ": " skip > "/dev/stderr"
      passed += ok; failed += bad; skipped += skip
      name = ""
    }
    /^[0-9]+\/[0-9]+ Testing: / { finish(); name = $NF; result = "failed"; run = ok = skip = 0; list = "" }
    /^\[ RUN      \] / { run++ }
    /^\[       OK \] / { ok++ }
    /^\[  SKIPPED \] / && !/test\(s\)/ { if (!((name, $0) in seen)) skip++; seen[name, $0] = 1 }
    /^\[  FAILED  \] / && !/test\(s\)/ { if (!((name, $0) in seen)) list = list " " $NF; seen[name, $0] = 1 }
    /^Test Passed\./ { result = "passed" }
    /^Test Skipped|^Test .*Skipped|SKIP_RETURN_CODE/ { result = "skipped" }
    END { finish(); print passed + 0, failed + 0, skipped + 0 }
  ' "$1"
}

report() { # name passed failed skipped
  echo "$1: $2 passed, $3 failed, $4 skipped"
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

build() { # preset, cmake options and -- targets
  local preset=$1
  shift
  mkdir -p build
  cmake --preset "$preset" "$@" >"build/$preset.log" 2>&1 &&
    cmake --build --preset "$preset" -j "$jobs" ${targets:+--target $targets} >>"build/$preset.log" 2>&1 && return
  grep -E -m 20 'error|Error|FAILED' "build/$preset.log" || tail -n 20 "build/$preset.log"
  echo "  FAILED the build; see build/$preset.log"
  report "$preset" 0 1 0
  return 1
}

run_tests() { # preset
  local select=() log="build/$1/Testing/Temporary/LastTest.log"
  [ "$1" = tsan ] && select=(-R "^(${threaded// /|})\$")
  [ "$1" = cuda ] && select=(-R "^(${device// /|})\$")
  rm -f "$log"
  ctest --test-dir "build/$1" -j "$jobs" --output-on-failure --no-tests=error "${select[@]}" \
    --test-output-size-passed 100000000 --test-output-size-failed 100000000 >>"build/$1.log" 2>&1
  local code=$? counts
  counts=$(count "$log")
  [ "${counts%% *}" -gt 0 ] || { echo "  no test of $1 has passed: see build/$1.log"; counts="0 1 0"; }
  [ $code -eq 0 ] || sed -n '/Failed\|Timeout\|\*\*\*/p' "build/$1.log" | tail -n 20
  report "$1" $counts
}

run_fuzzers() {
  command -v clang >/dev/null || { echo "fuzz: clang is not installed"; return 1; }
  local program name
  for program in build/fuzz/fuzz_*; do
    [ -x "$program" ] || continue
    name=$(basename "$program")
    mkdir -p "build/fuzz/found/${name#fuzz_}"
    if "$program" -max_total_time="${FUZZ_SECONDS:-60}" -artifact_prefix="build/fuzz/found/$name-" \
      "build/fuzz/found/${name#fuzz_}" "tests/fuzz/corpus/${name#fuzz_}" >"build/fuzz/$name.log" 2>&1; then
      report "$name ($(grep -oE 'Done [0-9]+ runs' "build/fuzz/$name.log"))" 1 0 0
    else
      tail -n 30 "build/fuzz/$name.log"
      report "$name" 0 1 0
    fi
  done
}

for preset in "${presets[@]}"; do
  start=$SECONDS
  echo "== $preset"
  case $preset in
    fuzz) targets= build fuzz && run_fuzzers ;;
    tsan) targets=${threaded/serve_parallel/saccade_command} build tsan -DSAC_TESTS=ON && run_tests tsan ;;
    cuda) targets="${device/cli_device/saccade_command} checkkernels" build cuda -DSAC_TESTS=ON && run_tests cuda ;;
    dev | asan | release) targets= build "$preset" -DSAC_TESTS=ON && run_tests "$preset" ;;
    *) echo "test.sh: unknown part '$preset'; there are dev, asan, tsan, release, cuda and fuzz" >&2; exit 64 ;;
  esac
  echo "   $((SECONDS - start)) s"
done
[ $skipped -eq 0 ] || echo "$skipped skipped (see above)"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
