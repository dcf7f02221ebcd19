#!/usr/bin/env bash
# Builds packaging/docker/Dockerfile on a bare Debian, without a registry of images, and asks the image about a picture; then its server,
# by the image's own health check.
#   tools/try_image.sh [--suite NAME] [--packages FOLDER] [--mirror URL] [--roots FOLDER] [--clean]
#   --suite NAME       of the base image: bookworm (default), trixie
#   --packages FOLDER  in place of the Dockerfile's first stage, which compiles the command without ccache (minutes): packages that cpack
#                      made on a system of that suite. The second stage, which is the image, is built from them
#   --mirror URL       the archive; default: the one that this machine's apt uses
#   --roots FOLDER     where the base is kept for the next time (build/roots), some hundred MB
#   --clean            removes it and does nothing else
# As root; needs buildah, mmdebstrap or debootstrap, and the network.
# Exit codes: 0 all is well, 1 something is not, 69 no network or no disk for the base or the image, 77 it cannot be tried here (one line says why).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/roots.sh

arguments=("$@") suite=bookworm packages="" mirror="" clean=""
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit ;;
    --clean) clean=1; shift; continue ;;
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
command -v buildah >/dev/null || skip "buildah is missing: apt-get install buildah"
enter_namespace "${arguments[@]}"
mirror=${mirror:-$(find_mirror "$suite")}
[ -n "$mirror" ] || skip "this machine's apt has no archive with $suite (--mirror URL names one)"

mkdir -p "$roots"
work=$(mktemp -d "$roots/image.XXXXXX") # a file system's copy for each layer: no place for a small /tmp
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() { command buildah --root "$work/store" --runroot "$work/run" "$@"; }
trap 'buildah umount --all >/dev/null 2>&1 || true; remove_roots || true; rm -rf --one-file-system "$work" || true' EXIT

make_root "$suite" "$mirror"
base=$(buildah from scratch 2>"$work/log") || skip "buildah does not run here: $(tail -n 1 "$work/log")"
buildah add -q "$base" "$kept.tar" / >/dev/null 2>"$work/log" || skip "buildah cannot unpack the base: $(tail -n 1 "$work/log")"
buildah run "$base" -- true >"$work/log" 2>&1 || skip "buildah runs no commands here: $(tail -n 1 "$work/log")"
buildah commit -q "$base" localhost/bare >/dev/null 2>"$work/log" || skip "buildah cannot keep the base: $(tail -n 1 "$work/log")"
remove_roots
flock -u "$lock" # others may go on
step "$suite: a base image"
file=packaging/docker/Dockerfile context=.
if [ -n "$packages" ]; then
  file=$work/Dockerfile context=$work/context
  mkdir "$context"
  cp "$packages"/*.deb "$context"
  awk '/^FROM / { first = / AS build$/; if (first) print "FROM scratch AS build\nCOPY . /build/" } !first' packaging/docker/Dockerfile >"$file"
  same "the Dockerfile's stages" 2 "$(grep -c '^FROM ' "$file")"
fi
buildah build -q --format docker --pull-never --build-arg BUILD_IMAGE=localhost/bare --build-arg RUN_IMAGE=localhost/bare \
  -f "$file" -t localhost/saccade "$context" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log"
  ! grep -qE 'Failed to fetch|Temporary failure|No space left' "$work/log" || exit 69 # the machine's fault
  exit 1
}
step "built by the Dockerfile${packages:+, its second stage}"

made_from=$(buildah from --pull-never localhost/saccade)
buildah copy -q "$made_from" samples/picture0000.png /picture.png >/dev/null
same "a question" gray "$(buildah run "$made_from" -- saccade ask --image /picture.png "What color is the background?")"
same "the user" 10001 "$(buildah run "$made_from" -- id -u)"
health=$(buildah inspect --format '{{range .Docker.Config.Healthcheck.Test}}{{.}}{{"\n"}}{{end}}' localhost/saccade | sed 1d)
mapfile -t check <<<"$health"
port=$((20000 + RANDOM % 20000)) # the network is the host's: nobody else may be asked, nor ask
check=("${check[@]//8000/$port}")
buildah run "$made_from" -- bash -c 'saccade serve --host 127.0.0.1 --port "$0" & for i in $(seq 60); do "$@" 2>/dev/null && break; sleep 1; done
  "$@" && kill %1 && wait %1 && ! "$@" 2>/dev/null' "$port" "${check[@]}"
step "it answers, and so does its server; the health check sees when that has ended"
