#!/usr/bin/env bash
# Tries Saccade in a bare system as its users would: the Debian packages by apt, a question about a picture and about a video, the
# examples built with find_package and with pkg-config, the wheel in a new virtual environment, and what is left when all is removed.
#   tools/try_roots.sh [--suite NAME] [--packages FOLDER] [--quick] [--mirror URL] [--roots FOLDER] [--clean]
#   --suite NAME       of Debian or Ubuntu: bookworm (default), trixie, noble
#   --packages FOLDER  try the packages in it, which cpack made on a system of that suite. Without it they are built in a
#                      root of that suite first, with the packages of tools/packages.sh and with ccache
#   --quick            compile those with -O1, without debug information, and the library's objects once: those of its archives are
#                      position-independent too then. What is tried here is the same
#   --mirror URL       the archive; default: the one that this machine's apt uses
#   --roots FOLDER     where roots are kept for the next time (build/roots), some hundred MB each
#   --clean            removes the suite's roots and does nothing else
# As root; needs mmdebstrap or debootstrap, and the network. Exit codes: 0 all is well, 1 something is not, 69 no root could be
# made or has no packages, 77 it cannot be tried here (one line says why).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/roots.sh

arguments=("$@") suite=bookworm packages="" mirror="" clean="" quick=""
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit ;;
    --clean) clean=1; shift; continue ;;
    --quick) quick=1; shift; continue ;;
    --suite | --packages | --mirror | --roots) [ $# -ge 2 ] || misused "$1 wants a value" ;;
    *) misused "unknown option '$1'" ;;
  esac
  case $1 in
    --suite) suite=$2 ;;
    --packages) packages=$(realpath -e "$2") || exit 66 ;;
    --mirror) mirror=$2 ;;
    --roots) roots=$(realpath -m "$2") ;;
  esac
  shift 2
done
[[ $suite =~ ^[a-z]+$ ]] || misused "'$suite' is no name of a suite"
if [ -n "$clean" ]; then
  rm -rf --one-file-system "$roots/$suite".*
  exit
fi
enter_namespace "${arguments[@]}"
mirror=${mirror:-$(find_mirror "$suite")}
[ -n "$mirror" ] || skip "this machine's apt has no archive with $suite (--mirror URL names one)"

make_root "$suite" "$mirror"
if [ -z "$packages" ]; then
  mount_for_building
  step "$suite: a root to build in"
  update_inside
  quietly /saccade/tools/packages.sh install build
  apt_inside install dpkg-dev file ccache
  step "packages to build with"
  printf '#!/bin/sh\nexec ccache "$@"%s\n' "${quick:+ -O1 -g0}" >"$root/compile" # the last -O and -g count
  chmod +x "$root/compile"
  quietly cmake -S /saccade -B /build -G Ninja -DSAC_TESTS=OFF -DSAC_SHARED=ON -DCMAKE_C_COMPILER_LAUNCHER=/compile \
    ${quick:+-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_VISIBILITY_PRESET=hidden}
  quietly cmake --build /build
  step "built"
  quietly cpack --config /build/CPackConfig.cmake -B /build/packages
  packages=$kept.build/packages
  make_root "$suite" "$mirror"
fi

files() { # in the root, less caches, logs and what netbase makes
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./saccade -o -path ./packages -o -path ./var/cache -o -path ./var/log -o -path ./tmp \
    -o -path ./var/lib/apt/lists -o -path ./etc/hosts \) -prune -o -print | sort)
}
cp "$packages"/*.deb "$root/packages"
update_inside
quietly /saccade/tools/packages.sh check all # all that README names is there
bare=$(files)
step "$suite: a bare root"

apt_inside install $(cd "$root/packages" && printf '/packages/%s ' *.deb)
same "a question about a picture" gray "$(inside saccade ask --image /saccade/samples/picture0000.png "What color is the background?")"
same "a question about a video" 87 "$(inside saccade ask --video /saccade/samples/video0000_16.mp4 "Which number appears last?")"
step "installed, and answers"

tools="gcc g++ libc6-dev cmake make pkg-config python3-venv libavformat-dev libavcodec-dev libswscale-dev"
apt_inside install $tools
step "compilers and Python"
inside bash -euo pipefail /saccade/tools/roots_inside.sh || exit 1
step "the examples and the wheel answer"

apt_inside purge $(for package in "$packages"/*.deb; do dpkg-deb -f "$package" Package; done)
apt_inside autoremove --purge -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false $tools # apt itself has some
diff <(echo "$bare") <(files) >"$log" || { echo "not as before, when all is removed (<: missing, >: left):"; grep '^[<>]' "$log"; exit 1; }
step "removed, and nothing is left"
