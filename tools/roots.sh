# Bare systems (roots) for tools/try_*.sh, which source this file: made by mmdebstrap or debootstrap, kept in $roots as archives,
# entered by chroot.

roots=$PWD/build/roots
tool=$PWD/tools/${0##*/} # $0 may be relative to where it was called

usage() { # the comment at the head of the tool
  sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$tool"
}

misused() {
  echo "$0: $1 (--help says what there is)" >&2
  exit 64
}

skip() { # 77: for tests, which say so
  echo "skipped: $*"
  exit 77
}

# Goes on as root in namespaces of its own, or skips: nothing stays mounted and nothing goes on running however the tool ends.
# Given the tool's own arguments.
enter_namespace() {
  [ -z "${SACCADE_NAMESPACE:-}" ] || return 0
  local own=(unshare --mount-proc --pid --fork --kill-child --propagation private)
  [ "$(id -u)" -eq 0 ] || skip "it needs root's rights"
  "${own[@]}" true 2>/dev/null || skip "nothing may be mounted here"
  SACCADE_NAMESPACE=1 exec "${own[@]}" "$tool" "$@"
}

# The archive that this machine's apt has packages of Debian (or of Ubuntu, for its suites) from.
find_mirror() { # suite
  local label=Debian
  case $1 in jammy | noble | questing | resolute) label=Ubuntu ;; esac
  apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk -v label=$label '$1 == label && !n++ { print $2 }' || true # without apt there is none
}

# A new bare system, in $root; removed when the tool ends. What it is unpacked from is made once and kept, and so are the packages that apt fetches.
make_root() { # suite mirror [mmdebstrap option...]: these name another kind of root, by $kind
  local maker
  suite=$1 mirror=$2
  shift 2
  kept=$roots/$suite${kind:-}
  mkdir -p "$kept.archives/partial"
  if [ -z "${lock:-}" ]; then
    exec {lock}>"$kept.lock"
    flock -w 300 "$lock" || skip "another of these tools is at work with $kept"
    rm -rf --one-file-system "$kept.new."* # of a tool that was killed
  fi
  log=$kept.log
  new_folder
  root=$folder
  if [ ! -e "$kept.tar" ]; then
    if command -v mmdebstrap >/dev/null; then
      maker=(mmdebstrap --quiet --variant=minbase "$@" "$suite" "$kept.new.tar" "$mirror" --format=tar)
    elif [ $# -eq 0 ] && command -v debootstrap >/dev/null; then
      maker=(by_debootstrap "$suite" "$kept.new.tar" "$mirror")
    else
      skip "mmdebstrap is missing: apt-get install mmdebstrap"
    fi
    if ! TMPDIR=$root "${maker[@]}" >"$log" 2>&1; then
      rm -f "$kept.new.tar"
      echo "no $suite from $mirror: $(grep -E -m 1 '^(E|W):' "$log" || tail -n 1 "$log")"
      exit 69
    fi
    mv "$kept.new.tar" "$kept.tar"
  fi
  tar -xf "$kept.tar" -C "$root" --numeric-owner
  cp --remove-destination "$(realpath /etc/resolv.conf)" "$root/etc/resolv.conf"
  mkdir -p "$root/saccade" "$root/packages"
  mount -t proc proc "$root/proc" # by it the command finds its model
  mount --bind -o ro "$PWD" "$root/saccade"
  mount --bind "$kept.archives" "$root/var/cache/apt/archives"
}

# What is compiled in the root goes to /build, and is kept as objects of ccache are.
mount_for_building() {
  mkdir -p "$root/build" "$root/ccache" "$kept.build" "$kept.ccache"
  mount --bind "$kept.build" "$root/build"
  mount --bind "$(ccache_of || echo "$kept.ccache")" "$root/ccache"
}

# In memory where there is plenty: apt waits for the disk at every step.
new_folder() {
  folder=$(mktemp -d "$kept.new.XXXXXX")
  made+=("$folder")
  [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 8 ] || mount -t tmpfs -o size=4g,mode=755 root "$folder"
}

by_debootstrap() { # suite tar mirror
  new_folder
  debootstrap --variant=minbase "$1" "$folder" "$3" && tar -cf "$2" -C "$folder" --numeric-owner .
}

# The machine's own, where it runs the same suite: then the compilers and ccache itself are of one version.
ccache_of() {
  [ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" = "$suite" ] && command -v ccache >/dev/null || return
  local folder
  folder=$(ccache --get-config cache_dir) && mkdir -p "$folder" && echo "$folder"
}

made=()
remove_roots() {
  local folder
  for folder in "${made[@]}"; do
    for at in proc saccade var/cache/apt/archives build ccache; do ! mountpoint -q "$folder/$at" || umount "$folder/$at" || return; done
    ! mountpoint -q "$folder" || umount "$folder"
    rm -rf --one-file-system "$folder"
  done
  made=()
}
trap remove_roots EXIT
trap 'exit 130' INT TERM

inside() { # command in the root
  chroot "$root" env -i ${http_proxy:+http_proxy="$http_proxy"} PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1 "$@"
}

# The same, silent unless it fails.
quietly() {
  inside "$@" >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
}

update_inside() { # apt's lists
  inside apt-get update -qq -o APT::Update::Error-Mode=any >"$log" 2>&1 && return
  echo "no packages from $mirror: $(grep -E -m 1 '^(E|W):' "$log" || tail -n 1 "$log")"
  exit 69
}

apt_inside() { # install|purge|autoremove ...; it need not outlive a power cut
  quietly apt-get -qq -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 "$@"
}

before=$SECONDS
step() { # what has been done since the last step
  echo "$1: $((SECONDS - before)) s"
  before=$SECONDS
}

same() { # what wanted got
  [ "$2" = "$3" ] && return
  echo "$1: '$3' where '$2' is wanted"
  exit 1
}
