#!/usr/bin/env bash
# The packages of Debian 12 and 13 and Ubuntu 24.04 that Saccade is built and tested with, and their installation.
#   tools/packages.sh list build|test|all     print them
#   tools/packages.sh check build|test|all    say which of them this system's apt does not know
#   tools/packages.sh install build|test|all  install those that are missing: as root, or through sudo
# "test" are those of ./test.sh, "all" those of ./test.sh all, which also opens the server's page in browsers, the chat in terminals
# and packages in bare systems.
# "a|b" are names for one thing. "a?" is wanted where apt has it: Ubuntu's browsers are none of apt's, Debian 13 has no mlterm, and tests take those
# that are there.
set -euo pipefail

build="gcc libc6-dev cmake ninja-build pkg-config libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev libssl-dev libarchive-dev
  libstb-dev libjpeg62-turbo-dev|libjpeg-turbo8-dev libavformat-dev libavcodec-dev libswscale-dev libavutil-dev libtiff-dev libheif-dev libopenjp2-7-dev libjxl-dev
  libedit-dev libmicrohttpd-dev libcurl4-openssl-dev libseccomp-dev libzmq3-dev"
test="g++ libcmocka-dev python3 python3-venv man-db zsh fish dpkg-dev file abigail-tools curl
  python3-numpy python3-pil"
more="buildah? ccache? mmdebstrap chromium? firefox-esr? xvfb? xdotool? xterm? mlterm? kitty?"

case "${2:-}" in
  build) wanted=$build ;;
  test) wanted="$build $test" ;;
  all) wanted="$build $test $more" ;;
  *) echo "usage: tools/packages.sh list|check|install build|test|all" >&2; exit 64 ;;
esac
knows() { apt-cache show "$1" >/dev/null 2>&1; }
is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# Whether a name with "?" is of no use here.
is_out() { case $1 in *\?) ! is_installed "${1%\?}" && ! knows "${1%\?}" ;; *) false ;; esac; }
# Of names "a|b" for one thing: the one that is installed, or that apt knows, or the first.
choose() {
  local name one=${1%\?} names
  names=${one//|/ }
  for name in $names; do is_installed "$name" && echo "$name" && return; done
  for name in $names; do knows "$name" && echo "$name" && return; done
  echo "${one%%|*}"
}

if [ "$1" = list ]; then
  for package in $wanted; do is_out "$package" || choose "$package"; done | xargs
  exit
fi

if [ "$1" = check ]; then
  unknown=()
  for package in $wanted; do
    is_out "$package" || knows "$(choose "$package")" || unknown+=("$package")
  done
  [ ${#unknown[@]} -eq 0 ] || { echo "apt does not know ${unknown[*]}" >&2; exit 1; }
  exit
fi

if ! command -v dpkg-query >/dev/null; then
  echo "Not a Debian system: install what stands for these packages:" $wanted >&2
  exit 0 # cmake says what it does not find
fi
missing=() needed=0
find_missing() {
  local package name
  missing=() needed=0
  for package in $wanted; do
    is_out "$package" && continue
    name=$(choose "$package")
    is_installed "$name" && continue
    missing+=("$name")
    case $package in *\?) ;; *) needed=1 ;; esac
  done
}
find_missing
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
    [ $needed -eq 0 ] && exit 0
    exit 69
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
find_missing # apt may only now know the names that this system has
echo "Installing the packages ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
