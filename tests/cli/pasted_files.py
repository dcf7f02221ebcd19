"""What stands for the files that a reader of the documents has downloaded, in the folder of test_pasted.py: checkpoints are the demo model, benchmarks
a few questions in their official layout about samples/."""
import base64
import json
import os
import subprocess

from cli import ROOT
from eval_samples import lines, sets

CHECKPOINTS = "qwen", "LongVA-7B", "llava-v1.5-7b", "Qwen2-7B-Instruct", "longchat-7b-v1.5-32k"
VENV = os.path.join(ROOT, "build/venv/bin/python")
NEEDS_ARROW = "saccade-parquet ", "tools/convert_eval.py "


def put(folder, name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)


def link(folder, name, to):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    os.symlink(os.path.join(ROOT, to), os.path.join(folder, name))


def checkpoints(folder):
    for name in CHECKPOINTS:
        link(folder, name, "models/demo")


def benchmarks(folder):
    """Of `eval`: official files and their media."""
    own = sets()
    put(folder, "coco_pope_random.json", own["pope"][0]["coco_pope_random.json"])
    put(folder, "MMBench_DEV_EN.tsv", own["mmbench"][0]["MMBench_DEV_EN.tsv"])
    text = own["textvqa"][0]["TextVQA_0.5.1_val.json"]
    put(folder, "TextVQA_0.5.1_val.json", text)
    put(folder, "answers.jsonl", lines([dict(question_id=str(q["question_id"]), response="12") for q in json.loads(text)["data"]]))
    for name, content in own["mvbench"][0].items():
        put(folder, "MVBench/json/" + name, content)
    link(folder, "MVBench/video", "samples/drawn")
    link(folder, "val2014", "samples")


def needles(folder):
    """What RULER's questions are made of."""
    put(folder, "TEXT", "The circle is red. A square stands beside it, and a number is written below. " * 40)
    capitals = [dict(context=f"Document about {k}. Its capital is City{k}.",
                     qas=[dict(question=f"What is the capital of {k}?", is_impossible=False, answers=[dict(text=f"City{k}")])]) for k in range(12)]
    put(folder, "dev-v2.0.json", json.dumps(dict(data=[dict(paragraphs=capitals)])))
    put(folder, "hotpot_dev_distractor_v1.json", json.dumps([
        dict(question=f"Where is {k}?", answer=f"in {k + 1}", context=[[f"Place {k}", [f"{k} is in {k + 1}."]], [f"Place {k + 1}", ["It is large."]]])
        for k in range(12)]))


def papers(folder):
    """Of `reproduce`: a folder for each --data."""
    with open(os.path.join(ROOT, "samples/drawn/set.json"), encoding="utf-8") as f:
        video = json.load(f)[0]
    put(folder, "videomme/videomme.json", json.dumps([video]))
    link(folder, f"videomme/videos/{video['videoID']}.mp4", f"samples/drawn/{video['videoID']}.mp4")
    put(folder, "gqa/testdev_balanced_questions.json", json.dumps({"1": dict(imageId="1", question="What?", answer="red", isBalanced=True)}))
    link(folder, "gqa/images/1.jpg", "samples/picture0001.jpg")
    row = dict(id="vt-4096", task="vt", length=4096, input="What is it? It is", outputs=["red"], metric="all", max_tokens=2)
    put(folder, "ruler/ruler.jsonl", lines([row]))
    put(folder, "DIR/longbench/qasper.jsonl", lines([dict(input="What is it?", context="It is red. ", answers=["red"], length=9, dataset="qasper",
                                                         all_classes=None, _id="1")]))
    put(folder, "DIR/ruler.jsonl", lines([row]))
    put(folder, "mine.yaml", "paper: mine\nsource: none\ntables:\n- {name: first, says: s, model: m, set: ruler.jsonl, figures: [avg], rows: [{name: a, paper: [1]}]}\n")


def tables(folder):
    """Parquet, and saccade-parquet as the Python package installs it; false where pyarrow is not there."""
    if not os.path.exists(VENV) or subprocess.run([VENV, "-c", "import pyarrow"], stderr=subprocess.DEVNULL).returncode:
        return False
    with open(os.path.join(ROOT, "samples/picture0000.png"), "rb") as f:
        picture = base64.b64encode(f.read()).decode()
    subprocess.run([VENV, "-c", """
import base64, sys
import pyarrow as pa, pyarrow.parquet as pq
picture = base64.b64decode(sys.stdin.read())
image = {"bytes": picture, "path": "x.png"}
pq.write_table(pa.table({"image": [picture] * 2, "label": [1, 2]}), "part-00.parquet")
pq.write_table(pa.Table.from_pylist([dict(id="validation_Math_1", question="<image 1>", options="['a', 'b']", explanation="", image_1=image, answer="A",
                                          question_type="multiple-choice", subfield="x")]), "validation-00000.parquet")
"""], input=picture, text=True, cwd=folder, check=True)
    tool = os.path.join(folder, "bin/saccade-parquet")
    put(folder, "bin/saccade-parquet", f'#!/bin/sh\nexec "{VENV}" -B "{ROOT}/python/saccade_parquet.py" "$@"\n')
    os.chmod(tool, 0o755)
    return True
