#!/usr/bin/env bash
# The packages of Debian 12 and 13 and Ubuntu 24.04 that Saccade is built and tested with, and their installation.
#   tools/packages.sh list build|test     print them
#   tools/packages.sh check build|test    say which of them this system's apt does not know
#   tools/packages.sh install build|test  install those that are missing: as root, or through sudo
set -euo pipefail

build="gcc libc6-dev cmake ninja-build pkg-config libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev libssl-dev libarchive-dev
  libstb-dev libjpeg62-turbo-dev|libjpeg-turbo8-dev libavformat-dev libavcodec-dev libswscale-dev libavutil-dev libedit-dev libmicrohttpd-dev libcurl4-openssl-dev libseccomp-dev"
test="g++ libcmocka-dev python3 python3-venv man-db zsh fish dpkg-dev file abigail-tools curl mmdebstrap
  python3-numpy python3-pil"

case "${2:-}" in
  build) wanted=$build ;;
  test) wanted="$build $test" ;;
  *) echo "usage: tools/packages.sh list|check|install build|test" >&2; exit 64 ;;
esac
is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# Of names "a|b" for one thing: the one that is installed, or that apt knows, or the first.
choose() {
  local name names=${1//|/ }
  for name in $names; do is_installed "$name" && echo "$name" && return; done
  for name in $names; do apt-cache show "$name" >/dev/null 2>&1 && echo "$name" && return; done
  echo "${1%%|*}"
}

if [ "$1" = list ]; then
  for package in $wanted; do choose "$package"; done | xargs
  exit
fi

if [ "$1" = check ]; then
  unknown=()
  for package in $wanted; do
    apt-cache show "$(choose "$package")" >/dev/null 2>&1 || unknown+=("$package")
  done
  [ ${#unknown[@]} -eq 0 ] || { echo "apt does not know ${unknown[*]}" >&2; exit 1; }
  exit
fi

if ! command -v dpkg-query >/dev/null; then
  echo "Not a Debian system: install what stands for these packages:" $wanted >&2
  exit 0 # cmake says what it does not find
fi
missing=()
for package in $wanted; do
  package=$(choose "$package")
  is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 69
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
for i in "${!missing[@]}"; do # apt may only now know the names that this system has
  for package in $wanted; do
    case "|$package|" in *"|${missing[i]}|"*) missing[i]=$(choose "$package") ;; esac
  done
done
echo "Installing the packages ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
