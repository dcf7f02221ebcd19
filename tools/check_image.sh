#!/usr/bin/env bash
# Builds packaging/docker/Dockerfile on a bare Debian made by debootstrap, without a registry of images, and asks the result about a
# picture; then its server, by the image's own health check. As root; needs buildah, debootstrap and the network.
#   tools/check_image.sh [SUITE] [MIRROR]
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm} mirror=${2:-} # none: debootstrap knows one
root=$(mktemp -d)
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() { command buildah --root "$root/store" --runroot "$root/run" "$@"; }
trap 'buildah umount --all >/dev/null 2>&1 || true; rm -rf --one-file-system "$root"' EXIT

debootstrap --variant=minbase "$suite" "$root/bare" ${mirror:+"$mirror"} >"$root/debootstrap.log" || { tail "$root/debootstrap.log"; exit 69; }
base=$(buildah from scratch)
buildah add -q "$base" "$root/bare" / >/dev/null
buildah commit -q "$base" localhost/bare >/dev/null
rm -rf --one-file-system "$root/bare"
buildah build -q --format docker --pull-never --build-arg BUILD_IMAGE=localhost/bare --build-arg RUN_IMAGE=localhost/bare \
  -f packaging/docker/Dockerfile -t localhost/saccade . >/dev/null

made=$(buildah from --pull-never localhost/saccade)
buildah copy -q "$made" samples/picture0000.png /picture.png >/dev/null
answer=$(buildah run "$made" -- saccade ask --image /picture.png "What color is the background?")
echo "answer: $answer"
[ "$answer" = gray ]
health=$(buildah inspect --format '{{range .Docker.Config.Healthcheck.Test}}{{.}}{{"\n"}}{{end}}' localhost/saccade | sed 1d)
mapfile -t check <<<"$health"
buildah run "$made" -- bash -c 'saccade serve --host 0.0.0.0 --port 8000 & for i in $(seq 60); do "$@" && break; sleep 1; done
  "$@" && kill %1 && wait %1 && ! "$@" 2>/dev/null' bash "${check[@]}"
buildah run "$made" -- id -u
echo "the server answers its health check, and no longer once it has ended"
