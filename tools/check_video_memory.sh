#!/bin/sh
# Peak memory of reading 64 frames of a 30-minute video beside a 10-second one (H.264, 1280 x 720, 25 frames a second,
# both generated: the long one is the short one 180 times over). Fails when the long one takes more than 5 % more.
#
#   tools/check_video_memory.sh build/release/video_probe --threads 2 --num-frames 64
#   tools/check_video_memory.sh build/release/saccade ask --num-frames 64 "What happens?" --video
#
# The rest of the command line is run once for each video, with its path at the end.
set -eu
[ $# -gt 0 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 64; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ffmpeg -hide_banner -loglevel error -f lavfi -i testsrc2=size=1280x720:rate=25:duration=10 \
    -c:v libx264 -preset superfast -bf 2 -g 50 -crf 35 "$folder/short.mp4"
ffmpeg -hide_banner -loglevel error -stream_loop 179 -i "$folder/short.mp4" -c copy "$folder/long.mp4"

peak_kb() { # of the command, with the video's path added
    python3 - "$@" <<'PYTHON'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PYTHON
}
short=$(peak_kb "$@" "$folder/short.mp4")
long=$(peak_kb "$@" "$folder/long.mp4")
echo "$short $long" | awk '{ grown = 100 * ($2 - $1) / $1
    printf "peak memory: 10 s %.1f MB, 30 min %.1f MB, %+.1f %%\n", $1 / 1024, $2 / 1024, grown
    exit grown > 5 }'
