#!/usr/bin/env python3
"""Draws docs/images/saccade.svg, README's moving picture, from a real run: a question about a video is typed, its frames go by, ZipVL leaves
patches out, the answer comes.

    SACCADE=build/release/saccade tools/make_readme_picture.py [--out docs/images/saccade.svg]

Frames, patches and words are those of the command (`inspect --attention`, `ask --json`); nothing in it depends on time, so the same build draws the
same bytes. The motion is CSS within the file; readers who ask for less motion see the last picture."""
import argparse
import json
import os
import re
import subprocess
import tempfile

SACCADE = os.environ.get("SACCADE", "build/release/saccade")
VIDEO, QUESTION, N_FRAMES = "samples/video0000_16.mp4", "What number is shown with the blue ring?", 8
METHOD = ["--prefill", "zipvl:min=0,tau=0.9"]
TYPING_S, FRAME_S, KEPT_S, REST_S = 3.0, 0.5, 1.0, 5.0
FRAMES_S = N_FRAMES * FRAME_S
TOTAL_S = TYPING_S + FRAMES_S + KEPT_S + REST_S
SIZE, GAP, LEFT, TOP, WIDTH = 91, 6, 16, 112, 800
STYLE = """
.back{fill:#f6f8fa;stroke:#d0d7de}.word{fill:#1f2328}.soft{fill:#59636e}.good{fill:#1a7f37}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}
@media(prefers-color-scheme:dark){.back{fill:#161b22;stroke:#3d444d}.word{fill:#e6edf3}.soft{fill:#9198a1}.good{fill:#3fb950}}
"""


def run(*words):
    return subprocess.run([SACCADE, *words], check=True, text=True, stdout=subprocess.PIPE).stdout


def attention():
    """The frames as data: URLs, and for each its patches (x, y, share left out), all as shares of a frame."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kept.svg")
        run("inspect", "--attention", path, *METHOD, "--video", VIDEO, "--num-frames", str(N_FRAMES), QUESTION)
        with open(path, encoding="utf-8") as f:
            drawn = f.read()
    frames = re.findall(r'<image id="t\d+"[^>]* href="(data:[^"]+)"/>', drawn)
    sheets = re.findall(r'<use href="#t(\d+)" [^>]*scale\((\S+) \S+\)"/>\n<g fill="#000"[^>]*>(.*?)</g>', drawn)[:len(frames)]
    assert [int(i) for i, _, _ in sheets] == list(range(N_FRAMES)), "the first sheet has every frame once"
    patches = []
    for _, size, body in sheets:
        cells = re.findall(r'x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" fill-opacity="(\S+)"', body)
        patches.append([tuple(float(v) / float(size) for v in cell[:4]) + (cell[4],) for cell in cells])
    return frames, patches


def at(seconds):
    return f"{100 * seconds / TOTAL_S:.2f}%"


def appears(name, seconds, until=TOTAL_S):
    """Keyframes of what is there from `seconds` on."""
    return f"@keyframes {name}{{0%,{at(seconds - 0.01)}{{opacity:0}}{at(seconds)},{at(until)}{{opacity:1}}}}.{name}{{animation:{name} {TOTAL_S}s infinite}}"


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def draw():
    frames, patches = attention()
    answer = json.loads(run("ask", "--json", *METHOD, "--video", VIDEO, "--num-frames", str(N_FRAMES), QUESTION))
    kept = answer["methods"]["kept_ratio"]
    first, second = f"$ saccade ask --prefill {METHOD[1]} --video {VIDEO}", f'    --num-frames {N_FRAMES} "{QUESTION}"'
    css, body = [STYLE], []
    height = TOP + SIZE + 62
    body.append(f'<rect class="back" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>')
    for i, (line, y) in enumerate([(first, 32), (second, 54)]):
        start, end = TYPING_S * i / 2, TYPING_S * (i + 1) / 2
        width = len(line) * 8.6
        css.append(f"@keyframes type{i}{{0%,{at(start)}{{width:0}}{at(end)},100%{{width:{width:.0f}px}}}}"
                   f".type{i}{{animation:type{i} {TOTAL_S}s steps({len(line)}) infinite}}")
        text = line.replace("&", "&amp;").replace('"', "&quot;")
        body.append(f'<clipPath id="c{i}"><rect class="type{i}" x="{LEFT}" y="{y - 16}" width="{width:.0f}" height="22"/></clipPath>'
                    f'<text class="word" x="{LEFT}" y="{y}" clip-path="url(#c{i})">{text}</text>')
    css.append(appears("say", TYPING_S) + appears("less", TYPING_S + FRAMES_S) + appears("end", TYPING_S + FRAMES_S + KEPT_S))
    usage = answer["usage"]
    body.append(f'<text class="soft say" x="{LEFT}" y="{TOP - 14}">{N_FRAMES} frames, {usage["visual_tokens"]} visual tokens</text>')
    body.append(f'<text class="soft less" x="{LEFT + 300}" y="{TOP - 14}">ZipVL keeps {100 * kept:.0f} % of tokens, the dark ones go</text>')
    for i, (frame, cells) in enumerate(zip(frames, patches)):
        x = LEFT + i * (SIZE + GAP)
        css.append(appears(f"f{i}", TYPING_S + i * FRAME_S))
        dark = {}
        for cx, cy, w, h, opacity in cells:
            dark.setdefault(opacity, []).append(f"M{number(SIZE * cx)} {number(SIZE * cy)}h{number(SIZE * w)}v{number(SIZE * h)}h-{number(SIZE * w)}z")
        paths = "".join(f'<path fill-opacity="{o}" d="{"".join(d)}"/>' for o, d in sorted(dark.items()))
        body.append(f'<g transform="translate({x} {TOP})"><image class="f{i}" width="{SIZE}" height="{SIZE}" href="{frame}"/>'
                    f'<g class="less">{paths}</g></g>')
    body.append(f'<text class="good end" x="{LEFT}" y="{TOP + SIZE + 40}">{answer["text"]}</text>')
    css.append("@media(prefers-reduced-motion:reduce){*{animation:none!important}}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
            f"<title>saccade answers {QUESTION} with {answer['text']}</title><style>{''.join(css)}</style>\n" + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="docs/images/saccade.svg")
    options = parser.parse_args()
    drawn = draw()
    with open(options.out, "w", encoding="utf-8") as f:
        f.write(drawn)
    print(f"{options.out}: {len(drawn)} bytes")


if __name__ == "__main__":
    main()
