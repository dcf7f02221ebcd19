#!/usr/bin/env bash
# The Debian (12) packages that Saccade is built and tested with, and their installation.
#   tools/packages.sh list build|test     print them
#   tools/packages.sh install build|test  install those that are missing: as root, or through sudo
set -euo pipefail

build="gcc libc6-dev cmake ninja-build pkg-config libyaml-dev libjansson-dev libpcre2-dev libutf8proc-dev libssl-dev libarchive-dev
  libstb-dev libjpeg62-turbo-dev libavformat-dev libavcodec-dev libswscale-dev libavutil-dev libmicrohttpd-dev libcurl4-openssl-dev libseccomp-dev"
test="g++ libcmocka-dev python3 python3-venv"

case "${2:-}" in
  build) wanted=$build ;;
  test) wanted="$build $test" ;;
  *) echo "usage: tools/packages.sh list|install build|test" >&2; exit 64 ;;
esac
if [ "$1" = list ]; then
  echo $wanted
  exit
fi

if ! command -v dpkg-query >/dev/null; then
  echo "Not a Debian system: install what stands for these packages: $(echo $wanted)" >&2
  exit 0 # cmake says what it does not find
fi
missing=()
for package in $wanted; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
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
echo "Installing the Debian packages ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
