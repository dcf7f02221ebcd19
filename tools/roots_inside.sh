# What tools/try_roots.sh runs in a root where the packages are installed: the examples as two projects of a user, and the wheel.
cd /tmp
model=/usr/share/saccade/demo samples=/saccade/samples

same() { # what wanted got
  [ "$2" = "$3" ] && return
  echo "$1: '$3' where '$2' is wanted"
  exit 1
}

cp -r /saccade/examples . # outside the tree
cmake -S examples -B with_cmake >cmake.log 2>&1 && cmake --build with_cmake -j "$(nproc)" >>cmake.log 2>&1 || { tail -n 20 cmake.log; exit 1; }
mkdir with_pkg_config
for name in ask describe; do
  cc -std=c11 -Wall -Wextra -Werror "examples/$name.c" -o "with_pkg_config/$name" $(pkg-config --cflags --libs saccade)
done
question="What color is the background?"
for program in with_cmake/ask with_cmake/describe with_cmake/ask_cpp with_pkg_config/ask with_pkg_config/describe; do
  same $program gray "$($program $model $samples/picture0000.png "$question")"
done
same with_cmake/frames 87 "$(with_cmake/frames $model $samples/video0000_16.mp4 "Which number appears last?" 2>/dev/null)"

python3 -m venv venv
library=$(ldconfig -p | sed -n 's/.*libsaccade\.so\.[0-9.]* .*=> //p')
venv/bin/pip -q --disable-pip-version-check wheel --no-index --no-deps -w wheel /saccade --config-settings library="$library"
venv/bin/pip -q --disable-pip-version-check install --no-index wheel/saccade-*.whl
program=$(sed -n '/^```python$/,/^```$/{//d;p}' /saccade/docs/python.md | sed '/^import asyncio$/,$d') # the first of docs/python.md
answer=$(cd /saccade && /tmp/venv/bin/python -I -c "$program" | sort -u)
same "Python" "A small red diamond at the bottom right and the number 12 at the top left on a gray background." "$answer"
