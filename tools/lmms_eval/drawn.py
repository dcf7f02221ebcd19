"""The drawn set as a task of lmms-eval (0.7.3), with the prompt of `saccade eval --prompt bare`. In the root of the tree:

    python3 tools/lmms_eval/drawn.py > build/drawn.jsonl
    saccade serve --ctx 4096 --slots 4 --media-root samples &
    python3 -m lmms_eval --model openai --include_path tools/lmms_eval --tasks drawn --batch_size 1 --model_args \\
        model_version=demo,base_url=http://localhost:8000/v1,api_key=x,pass_video_url=True,max_frames_num=16,num_concurrent=4
    saccade eval samples/drawn/set.json --prompt bare --num-frames 16 --ctx 4096"""
import json
import os
import re


def visual(doc):
    return [os.path.abspath(f"samples/drawn/{doc['videoID']}.mp4")]


def text(doc, lmms_eval_specific_kwargs=None):
    return "\n".join([doc["question"], *doc["options"], "The best answer is:"])


def messages(doc, lmms_eval_specific_kwargs=None):
    return [{"role": "user", "content": [{"type": "video", "url": visual(doc)[0]}, {"type": "text", "text": text(doc)}]}]


def process(doc, results):
    letter = re.search("[ABCD]", results[0])
    return {"accuracy": float(bool(letter) and letter.group(0) == doc["answer"])}


def mean(items):
    return sum(items) / len(items)


if __name__ == "__main__":
    for video in json.load(open("samples/drawn/set.json")):
        for question in video["questions"]:
            print(json.dumps({"videoID": video["videoID"], **question}))
