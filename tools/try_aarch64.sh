#!/usr/bin/env bash
# Builds the command and its tests for aarch64 with Debian's cross compiler, in a root with Debian's libraries for both architectures, and
# runs them under qemu: a question about a picture, then unit tests. Kernels are the plain C ones there.
#   tools/try_aarch64.sh [--suite NAME] [--smoke] [--tests REGEX] [--mirror URL] [--roots FOLDER] [--clean]
#   --suite NAME    bookworm (default), trixie
#   --smoke         the question alone: no test is built
#   --tests REGEX   the unit tests that ctest's -R finds by it; default: all, which takes long
#   --mirror URL    the archive; default: the one that this machine's apt uses
#   --roots FOLDER  where the root is kept for the next time (build/roots), some hundred MB
#   --clean         removes it and does nothing else
# As root; needs mmdebstrap and the network. Exit codes: 0 all is well, 1 something is not, 69 no root could be made, 77 it cannot be
# tried here (one line says why).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/roots.sh

arguments=("$@") suite=bookworm smoke="" tests=. mirror="" clean="" kind=.aarch64
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit ;;
    --clean) clean=1; shift; continue ;;
    --smoke) smoke=1; shift; continue ;;
    --suite | --tests | --mirror | --roots) [ $# -ge 2 ] || misused "$1 wants a value" ;;
    *) misused "unknown option '$1'" ;;
  esac
  case $1 in
    --suite) suite=$2 ;;
    --tests) tests=$2 ;;
    --mirror) mirror=$2 ;;
    --roots) roots=$(realpath -m "$2") ;;
  esac
  shift 2
done
[[ $suite =~ ^[a-z]+$ ]] || misused "'$suite' is no name of a suite"
if [ -n "$clean" ]; then
  rm -rf --one-file-system "$roots/$suite$kind".*
  exit
fi
enter_namespace "${arguments[@]}"
mirror=${mirror:-$(find_mirror "$suite")}
[ -n "$mirror" ] || skip "this machine's apt has no archive with $suite (--mirror URL names one)"

# The compilers and tools are this machine's kind, the libraries aarch64's.
include=gcc-aarch64-linux-gnu,libc6-dev:arm64,cmake,ninja-build,pkg-config,ccache,qemu-user-static
for package in $(tools/packages.sh list build) libcmocka-dev; do
  case $package in *-dev) [ "$package" = libc6-dev ] || include+=,$package:arm64 ;; esac
done
make_root "$suite" "$mirror" --architectures=amd64,arm64 --include="$include"
mount_for_building
step "$suite for aarch64: a root with the cross compiler"

cat >"$root/aarch64.cmake" <<'END'
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
END
quietly cmake -S /saccade -B /build -G Ninja -DCMAKE_TOOLCHAIN_FILE=/aarch64.cmake -DSAC_TESTS=$([ -n "$smoke" ] && echo OFF || echo ON)
quietly cmake --build /build --target saccade_command
step "the command is built"

in_tree() { inside env --chdir=/saccade qemu-aarch64-static "$@"; }
same "what it is built for" aarch64 "$(inside sh -c "aarch64-linux-gnu-readelf -h /build/saccade | sed -n 's/.*Machine: *A/a/p' | tr A-Z a-z")"
same "a question about a picture" gray "$(in_tree /build/saccade ask --image samples/picture0000.png "What color is the background?")"
step "it answers"
[ -z "$smoke" ] || exit 0

names=$(inside ctest --test-dir /build -L unit -R "$tests" -N | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$names" ] || { echo "no unit test is called '$tests'"; exit 1; }
quietly cmake --build /build --target $names
step "the unit tests are built"
inside ctest --test-dir /build -L unit -R "$tests" -j "$(nproc)" --timeout 3600 --no-tests=error >"$log" 2>&1 || { grep -A 99 "tests passed" "$log"; exit 1; }
grep "tests passed" "$log"
step "the unit tests pass"
