"""The small world of the demo model: drawn scenes, and questions about them with their right answers.

A picture is one scene: 1-4 shapes of distinct form and colour on a 3x3 grid, and perhaps a number of two digits.
A video is a run of scenes that each last a while; 1-4 numbers flash for 1-3 frames, at most one to a scene.
Everything here is plain Python over a `random.Random`, so a seed gives the same scenes on every machine.
"""
import random
from dataclasses import dataclass, field, replace

import numpy as np

SHAPES = ["circle", "square", "triangle", "diamond", "cross", "ring", "star", "bar"]
COLORS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (235, 210, 40),
          "orange": (240, 140, 30), "purple": (150, 60, 190), "pink": (245, 140, 190), "brown": (130, 80, 40)}
COLOR_NAMES = list(COLORS)
BACKGROUNDS = {"white": (250, 250, 250), "black": (12, 12, 12), "gray": (128, 128, 128)}
BACKGROUND_NAMES = list(BACKGROUNDS)
CELLS = ["top left", "top", "top right", "left", "center", "right", "bottom left", "bottom", "bottom right"]
COUNT_WORDS = ["zero", "one", "two", "three", "four", "five"]
MC_TAILS = ["Answer with the option's letter from the given choices directly.", "The best answer is:"]
MAX_ITEMS = 4
ROW_LENGTH = 2 + 4 * MAX_ITEMS      # numbers that describe one frame to the renderer, see Scene.row


@dataclass(frozen=True)
class Item:
    shape: int
    color: int
    cell: int
    large: bool

    @property
    def shape_name(self):
        return SHAPES[self.shape]

    @property
    def color_name(self):
        return COLOR_NAMES[self.color]


@dataclass(frozen=True)
class Scene:
    background: int
    items: tuple
    number: int | None = None
    number_cell: int = 0

    def row(self):
        """[background, number * 9 + cell or -1, then (shape, color, cell, large) or -1s for each of MAX_ITEMS]"""
        row = np.full(ROW_LENGTH, -1, np.int16)
        row[0] = self.background
        if self.number is not None:
            row[1] = self.number * 9 + self.number_cell
        for i, it in enumerate(self.items):
            row[2 + 4 * i:6 + 4 * i] = it.shape, it.color, it.cell, it.large
        return row

    def describe(self):
        parts = [f"a {'large' if it.large else 'small'} {it.color_name} {it.shape_name} at the {CELLS[it.cell]}"
                 for it in sorted(self.items, key=lambda it: it.cell)]
        if self.number is not None:
            parts.append(f"the number {self.number} at the {CELLS[self.number_cell]}")
        text = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
        return f"{text[0].upper()}{text[1:]} on a {BACKGROUND_NAMES[self.background]} background."


@dataclass(frozen=True)
class Question:
    kind: str           # the row of the accuracy table: "color", "color_mc", "needle_shape", ...
    text: str
    answer: str


@dataclass
class Video:
    rows: np.ndarray                            # [n_frames, ROW_LENGTH]
    first: Scene                                # scene of the first frame
    last: Scene                                 # scene of the last frame
    numbered: list = field(default_factory=list)    # the scenes with a number, in order of time


def make_scene(rng, n_items, number=None):
    cells = rng.sample(range(9), n_items + (number is not None))
    shapes, colors = rng.sample(range(8), n_items), rng.sample(range(8), n_items)
    items = tuple(Item(shapes[i], colors[i], cells[i], rng.random() < .5) for i in range(n_items))
    return Scene(rng.randrange(3), items, number, cells[-1] if number is not None else 0)


def make_picture(rng):
    return make_scene(rng, rng.randint(1, MAX_ITEMS), rng.randrange(10, 100) if rng.random() < .5 else None)


def make_video(rng, n_frames):
    """Scenes last 3-8 frames on average (one frame each when there are at most four frames)."""
    n_scenes = n_frames if n_frames <= 4 else max(2, n_frames // rng.choice([3, 4, 6, 8]))
    cuts = [0] + sorted(rng.sample(range(1, n_frames), n_scenes - 1)) + [n_frames]
    n_numbers = min(rng.randint(1, 4), n_scenes)
    numbers = dict(zip(rng.sample(range(n_scenes), n_numbers), rng.sample(range(10, 100), n_numbers)))
    rows, scenes, numbered = np.empty((n_frames, ROW_LENGTH), np.int16), [], []
    for i, (start, end) in enumerate(zip(cuts, cuts[1:])):
        scene = make_scene(rng, 1, numbers.get(i))
        rows[start:end] = replace(scene, number=None).row()
        if i in numbers:
            length = min(end - start, rng.randint(1, 3))
            at = rng.randint(start, end - length)
            rows[at:at + length] = scene.row()
            numbered.append(scene)
        scenes.append(scene)
    return Video(rows, scenes[0], scenes[-1], numbered)


def multiple_choice(rng, text, answer, pool):
    options = [answer] + rng.sample([p for p in pool if p != answer], 3)
    rng.shuffle(options)
    lines = [f"{letter}. {option}" for letter, option in zip("ABCD", options)]
    return "\n".join([text, *lines, rng.choice(MC_TAILS)]), "ABCD"[options.index(answer)]


def some_numbers(rng, near):
    """Wrong options for a question about a number: some from the scene itself, some that share a digit, some at random."""
    shared = [near // 10 * 10 + rng.randrange(10), rng.randrange(1, 10) * 10 + near % 10]
    return [str(n) for n in dict.fromkeys([near, *shared, *rng.sample(range(10, 100), 6)])]


def does_it_appear(rng, numbers):
    """A wrong number shares a digit with a right one half of the time."""
    number = rng.choice(numbers)
    if rng.random() < .5:
        return Question("number_appears", f"Does the number {number} appear?", "yes")
    while number in numbers:
        number = rng.choice([number // 10 * 10 + rng.randrange(10), rng.randrange(1, 10) * 10 + number % 10, rng.randrange(10, 100)])
    return Question("number_appears", f"Does the number {number} appear?", "no")


def _finish(rng, kind, text, answer, pool, mc_share):
    if pool is not None and rng.random() < mc_share:
        text, answer = multiple_choice(rng, text, answer, pool)
        kind += "_mc"
    return Question(kind, text, answer)


PICTURE_KINDS = {"count": 1, "color": 3, "where": 2, "shape": 3, "size": 1, "ocr": 2, "shape_of_color": 3, "background": .5, "caption": 1,
                 "number_appears": .7}


def picture_question(rng, scene, mc_share, kind=None):
    """One question about a picture; kind (without _mc) is drawn when it is not given."""
    kind = kind or rng.choices(list(PICTURE_KINDS), list(PICTURE_KINDS.values()))[0]
    if kind == "number_appears" and scene.number is not None:
        return does_it_appear(rng, [scene.number])
    it = rng.choice(scene.items)
    number = "none" if scene.number is None else str(scene.number)
    pool = None
    if kind == "count":
        text, answer = "How many shapes are there?", COUNT_WORDS[len(scene.items)]
    elif kind == "size":
        text, answer = f"Is the {it.shape_name} large or small?", "large" if it.large else "small"
    elif kind == "background":
        text, answer = "What color is the background?", BACKGROUND_NAMES[scene.background]
    elif kind == "caption":
        text, answer = "Describe the image.", scene.describe()
    elif kind in ("ocr", "number_appears"):
        kind, text, answer = "ocr", "What number is written?", number
        pool = None if scene.number is None else some_numbers(rng, scene.number)
    elif kind == "color":
        text, answer, pool = f"What color is the {it.shape_name}?", it.color_name, COLOR_NAMES
    elif kind == "where":
        text, answer, pool = f"Where is the {it.color_name} shape?", CELLS[it.cell], CELLS
    elif kind == "shape":
        text, answer, pool = f"What shape is at the {CELLS[it.cell]}?", it.shape_name, SHAPES
    elif kind == "shape_of_color":
        text, answer, pool = f"What shape is {it.color_name}?", it.shape_name, SHAPES
    else:
        raise ValueError(f"no picture question of kind {kind}")
    return _finish(rng, kind, text, answer, pool, mc_share)


VIDEO_KINDS = {"needle_shape": 3, "needle_color": 3, "needle_number": 2, "count_numbers": 1, "first_number": 1.2,
               "last_number": 1.2, "first_color": .7, "last_shape": .9, "number_appears": 1}


def video_question(rng, video, mc_share, kind=None):
    kind = kind or rng.choices(list(VIDEO_KINDS), list(VIDEO_KINDS.values()))[0]
    if kind == "number_appears":
        return does_it_appear(rng, [s.number for s in video.numbered])
    scene = rng.choice(video.numbered)
    it = scene.items[0]
    if kind == "needle_number" and sum(s.items[0].shape == it.shape and s.items[0].color == it.color
                                       for s in video.numbered) > 1:
        kind = "needle_shape"           # two numbers came with the same red circle: the question would have two answers
    pool = None
    if kind == "count_numbers":
        text, answer = "How many numbers appear?", COUNT_WORDS[len(video.numbered)]
    elif kind == "first_number":
        text, answer = "Which number appears first?", str(video.numbered[0].number)
    elif kind == "last_number":
        text, answer = "Which number appears last?", str(video.numbered[-1].number)
    elif kind == "needle_shape":
        text, answer, pool = f"What shape is shown with the number {scene.number}?", it.shape_name, SHAPES
    elif kind == "needle_color":
        text, answer, pool = f"What color is the shape shown with the number {scene.number}?", it.color_name, COLOR_NAMES
    elif kind == "needle_number":
        text, answer = f"What number is shown with the {it.color_name} {it.shape_name}?", str(scene.number)
    elif kind == "first_color":
        text, answer, pool = "What color is the shape at the start of the video?", video.first.items[0].color_name, COLOR_NAMES
    elif kind == "last_shape":
        text, answer, pool = "What shape is at the end of the video?", video.last.items[0].shape_name, SHAPES
    else:
        raise ValueError(f"no video question of kind {kind}")
    if kind.endswith("_number"):        # the other numbers of the video are among the wrong options
        others = [str(s.number) for s in video.numbered]
        pool = rng.sample(others, len(others)) if len(others) >= 4 else others + some_numbers(rng, int(answer))
        pool = list(dict.fromkeys(pool))
    return _finish(rng, kind, text, answer, pool, mc_share)


def letter_drill(rng):
    """A training exercise that needs no picture: find the option that says a given word, or say what an option says."""
    pool = rng.choice([SHAPES, COLOR_NAMES, CELLS, [str(n) for n in rng.sample(range(10, 100), 8)]])
    word = rng.choice(pool)
    text, letter = multiple_choice(rng, f"Which option is {word}?", word, pool)
    if rng.random() < .4:
        return Question("drill_word", text.replace(f"Which option is {word}?", f"What is option {letter}?", 1), word)
    return Question("drill_mc", text, letter)


# ---- text to tokens

PAD, IMAGE, USER, ASSISTANT, END = range(5)     # the special tokens come first in the demo vocabulary


class Encoder:
    """Token ids of question and answer texts. Lines are remembered: a newline is always a token of its own in this
    vocabulary (the split pattern never joins it to a neighbour), so a text's ids are its lines' ids joined by it."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.newline = tokenizer.encode("\n").ids[0]
        self.lines = {}

    def line(self, text):
        ids = self.lines.get(text)
        if ids is None:
            ids = self.tokenizer.encode(text).ids
            if len(self.lines) < 100_000:
                self.lines[text] = ids
        return ids

    def __call__(self, text):
        head, *rest = text.split("\n")
        ids = list(self.line(head))
        for line in rest:
            ids.append(self.newline)
            ids += self.line(line)
        return ids


if __name__ == "__main__":      # a look at what is asked
    rng = random.Random(0)
    for _ in range(4):
        print(picture_question(rng, make_picture(rng), .5), video_question(rng, make_video(rng, 16), .5), letter_drill(rng), sep="\n")
