#!/usr/bin/env bash
# Installs packages that cpack made into a bare Debian, asks about a picture, removes them, and says what is left. As root; needs
# debootstrap and the network.
#   tools/check_packages.sh FOLDER [SUITE] [MIRROR]     packages in FOLDER, made on a system of that suite (bookworm)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: tools/check_packages.sh FOLDER [SUITE] [MIRROR]" >&2; exit 64; }
folder=$(realpath "$1") suite=${2:-bookworm} mirror=${3:-} # none: debootstrap knows one
root=$(mktemp -d)
clean() {
  ! mountpoint -q "$root/bare/proc" || umount "$root/bare/proc"
  rm -rf --one-file-system "$root"
}
trap clean EXIT

debootstrap --variant=minbase "$suite" "$root/bare" ${mirror:+"$mirror"} >"$root/debootstrap.log" || { tail "$root/debootstrap.log"; exit 69; }
cp /etc/resolv.conf "$root/bare/etc/"
mount -t proc proc "$root/bare/proc" # by it the command finds its model
mkdir "$root/bare/packages"
cp "$folder"/*.deb samples/picture0000.png "$root/bare/packages/"
inside() { chroot "$root/bare" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
files() { (cd "$root/bare" && find . -xdev \( -type f -o -type l \) ! -path './var/*' ! -path './packages/*' ! -path './proc/*' | sort); }

# What they depend on comes first, so that what is compared is theirs alone.
depends=$(for package in "$folder"/*.deb; do dpkg-deb -f "$package" Depends | tr ',' '\n'; done | sed 's/(.*//; s/|.*//; /saccade/d' | sort -u)
inside apt-get update -qq
inside apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends $depends >/dev/null
files >"$root/before"
inside sh -c 'dpkg --install /packages/*.deb' >/dev/null
files | comm -13 "$root/before" - | wc -l | sed 's/$/ files installed/'
answer=$(inside saccade ask --image /packages/picture0000.png "What color is the background?")
echo "answer: $answer"
[ "$answer" = gray ]
inside dpkg --purge saccade saccade-demo libsaccade0 libsaccade-dev >/dev/null
files | diff "$root/before" - && echo "nothing is left"
