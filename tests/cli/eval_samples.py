"""Rows in the official layout of each benchmark that `saccade eval` reads, about pictures and videos of samples/; used by
test_eval_sets.py."""

import base64
import csv
import io
import json

# each shorter than a second or two
VIDEOS = (
    "drawn001_4 drawn004_8 drawn007_12 drawn013_4 drawn016_8 drawn019_12 drawn025_4 drawn028_8 drawn031_12 drawn037_4 drawn040_8 "
    "drawn010_16 drawn022_16 drawn034_16 drawn002_24 drawn011_24 drawn020_24 drawn029_24 drawn038_24 drawn005_32"
).split()
PICTURES = ["picture0001.jpg", "picture0002.jpg", "picture0004.jpg", "picture0000.png", "picture0003.png", "picture0005.png"]
BASE64 = base64.b64encode(open("samples/picture0000.png", "rb").read()).decode()


def table(rows, dialect):
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=dialect, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def lines(rows):
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def choice(i, **more):
    return dict(question=f"What color is the shape? {i}", candidates=["red", "green", "blue"], answer="green", **more)


def sets(rows=3):
    """name: ({file: text}, folder of media, questions, dimensions); some `rows` questions each, at most 20"""
    videos = VIDEOS[:rows]
    pictures = [PICTURES[i % len(PICTURES)] for i in range(rows)]
    pairs, triples = max(2, rows // 2), (rows + 2) // 3
    five = {f"a{k}": w for k, w in enumerate("red green blue gray pink".split())}
    compass = {
        v: {
            "action": [{"question": "What is shown?\nA. red\nB. green", "answer": "A. red"}],
            "order": [{"question": "q\nA. x\nB. y", "answer": "B. y"}],
        }
        for v in videos
    }
    matching = {
        VIDEOS[0]: {
            "speed": [{"question": "Which?\nSentence A: it is red.\nSentence B: it is blue.", "answer": "Sentence B: it is blue."}]
        }
    }
    return {
        "mvbench": (
            {
                "action_sequence.json": json.dumps([choice(i, video=v + ".mp4", start=0.5, end=2.5) for i, v in enumerate(videos)]),
                "moving_count.json": json.dumps([choice(i, video=v + ".mp4") for i, v in enumerate(videos)]),
            },
            "samples/drawn",
            2 * rows,
            {"task"},
        ),
        "mlvu": (
            {
                "1_plotQA.json": json.dumps(
                    [choice(i, video=v + ".mp4", duration=9.5, question_type="plotQA") for i, v in enumerate(videos)]
                ),
                "4_count.json": json.dumps([choice(0, video=VIDEOS[0] + ".mp4", duration=9.5, question_type="count")]),
            },
            "samples/drawn",
            rows + 1,
            {"type"},
        ),
        "longvideobench": (
            {
                "lvb_val.json": json.dumps(
                    [
                        dict(
                            choice(
                                i,
                                video_path=v + ".mp4",
                                id=f"{v}_{i}",
                                subtitle_path=f"{v}_en.json",
                                correct_choice=i % 4 - 1,
                                duration_group=15,
                                question_category="S2E",
                                starting_timestamp_for_subtitles=0,
                                duration=4.0,
                            )
                        )
                        for i, v in enumerate(videos)
                    ]
                ),
                f"subtitles/{VIDEOS[1]}_en.json": json.dumps(
                    [
                        {"start": "00:00:00.000", "end": "00:00:02.500", "line": "It begins."},
                        {"start": "00:00:02.500", "end": "00:00:03.900", "line": "It ends."},
                    ]
                ),
                f"subtitles/{VIDEOS[2]}_en.json": json.dumps(
                    [{"timestamp": [0.5, 2.5], "text": "Hello"}, {"timestamp": [2.5, None], "text": "there"}]
                ),
            },
            "samples/drawn",
            rows,
            {"duration", "category"},
        ),
        "egoschema": (
            {
                "questions.json": json.dumps(
                    [
                        dict(
                            {f"option {k}": w for k, w in enumerate(five.values())},
                            q_uid=v,
                            google_drive_id="x",
                            question="What is seen?",
                        )
                        for v in videos
                    ]
                ),
                "subset_answers.json": json.dumps({VIDEOS[0]: 3, VIDEOS[2]: 0}),
            },
            "samples/drawn",
            rows,
            set(),
        ),
        "nextqa": (
            {
                "val.csv": table(
                    [
                        dict(video=v, frame_count=9, width=112, height=112, question='what, "then"?', answer=i % 5, qid=i, type=t, **five)
                        for i, (v, t) in enumerate(zip(videos, ("CW", "TN", "DO") * 7))
                    ],
                    ",",
                )
            },
            "samples/drawn",
            rows,
            {"kind", "type"},
        ),
        "tempcompass": (
            {
                "multi-choice.json": json.dumps(compass),
                "yes_no.json": json.dumps({VIDEOS[0]: {"speed": [{"question": "Is it fast?", "answer": "yes"}]}}),
                "caption_matching.json": json.dumps(matching),
                "captioning.json": json.dumps(
                    {VIDEOS[0]: {"speed": [{"question": "Describe it.", "mc_question": "q", "mc_answer": "a"}]}}
                ),
            },
            "samples/drawn",
            2 * rows + 3,
            {"task", "aspect"},
        ),
        "streamingbench": (
            {
                "questions_real.json": json.dumps(
                    [
                        {
                            "time": "[0:00:00 - 0:01:00]",
                            "video_path": f"./videos/{v}.mp4",
                            "video_categories": "x",
                            "questions": [
                                {
                                    "task_type": "Counting",
                                    "question": "How many?",
                                    "time_stamp": "00:00:02",
                                    "answer": "B",
                                    "options": ["A. one", "B. two", "C. three", "D. four"],
                                }
                            ],
                        }
                        for v in videos
                    ]
                )
            },
            "samples/drawn",
            rows,
            {"task"},
        ),
        "mmmu": (
            {
                "validation.jsonl": lines(
                    [
                        row
                        for k in range(triples)
                        for row in (
                            dict(
                                id=f"validation_Art_Theory_{3 * k + 1}",
                                question="<image 1> What is it?",
                                options=["a circle", "see <image 2>"],
                                answer="A",
                                question_type="multiple-choice",
                                subfield="x",
                                image_1=BASE64,
                                image_2=BASE64,
                            ),
                            dict(
                                id=f"validation_Math_{3 * k + 2}",
                                question="How many? <image 1>",
                                options=[],
                                answer=["2", "two"],
                                question_type="open",
                                subfield="x",
                                image_1=BASE64,
                                image_2=None,
                            ),
                            dict(
                                id=f"validation_Math_{3 * k + 3}",
                                question="What number?",
                                options=["12", "13", "14", "15"],
                                answer="A",
                                question_type="multiple-choice",
                                subfield="x",
                                image_1=BASE64,
                            ),
                        )
                    ]
                )
            },
            None,
            3 * triples,
            {"discipline", "subject"},
        ),
        "mmbench": (
            {
                "MMBench_DEV_EN.tsv": table(
                    [
                        dict(
                            index=i + 1000000 * k,
                            question="What\nnumber?",
                            hint="" if i else 'Look, "closely".',
                            A=a,
                            B=b,
                            C="" if i else "z",
                            D="",
                            answer="AB"[k],
                            category="ocr",
                            image=BASE64,
                            source="x",
                            **{"l2-category": "fine"},
                            comment="",
                            split="dev",
                        )
                        for i in range(pairs)
                        for k, (a, b) in enumerate((("12", "13"), ("13", "12")))
                    ],
                    "\t",
                )
            },
            None,
            2 * pairs,
            {"l2-category", "category"},
        ),
        "textvqa": (
            {
                "TextVQA_0.5.1_val.json": json.dumps(
                    {
                        "dataset_type": "val",
                        "data": [
                            dict(
                                question_id=34602 + i,
                                question="what is the number?",
                                image_id=p.split(".")[0],
                                image_classes=["x"],
                                answers=["12"] * 3 + ["none"] * 7,
                            )
                            for i, p in enumerate(pictures)
                        ],
                    }
                )
            },
            "samples",
            rows,
            set(),
        ),
        "docvqa": (
            {
                "val_v1.0_withQT.json": json.dumps(
                    {
                        "dataset_name": "SP-DocVQA",
                        "data": [
                            dict(
                                questionId=i,
                                question="What is the number?",
                                question_types=["form", "layout"],
                                image="documents/" + p,
                                docId=1,
                                answers=["12", "none"],
                            )
                            for i, p in enumerate(pictures)
                        ],
                    }
                )
            },
            "samples",
            rows,
            {"question type"},
        ),
        "chartqa": (
            {
                "test_human.json": json.dumps([dict(imgname=p, query=f"How much? {i}", label="12%") for i, p in enumerate(pictures)]),
                "test_augmented.json": json.dumps([dict(imgname=PICTURES[0], query="q", label="none")]),
            },
            "samples",
            rows + 1,
            {"half"},
        ),
        "pope": (
            {
                f"coco_pope_{s}.json": lines(
                    [
                        dict(question_id=i, image=p, text="Is there a circle in the image?", label="no" if i % 2 else "yes")
                        for i, p in enumerate(pictures)
                    ]
                )
                for s in ("random", "popular", "adversarial")
            },
            "samples",
            3 * rows,
            {"split"},
        ),
        "scienceqa": (
            {
                "problems.json": json.dumps(
                    {
                        str(i): dict(
                            question="Which?",
                            choices=["red", "green"],
                            answer=i % 2,
                            hint=h,
                            image=p,
                            task="closed choice",
                            grade=f"grade{g}",
                            subject=s,
                            topic="t",
                            category="c",
                            skill="k",
                            lecture="",
                            solution="",
                            split="train" if i == 3 else "test",
                        )
                        for i, (h, p, g, s) in enumerate(
                            [
                                ("", PICTURES[0], 2, "natural science"),
                                ("Read.", None, 8, "language science"),
                                *[("", None, 6, "social science")] * (rows - 1),
                            ]
                        )
                    }
                )
            },
            "samples",
            rows,
            {"subject", "context", "grades", "grade"},
        ),
        "coco": (
            {
                "captions_val2014.json": json.dumps(
                    {
                        "images": [dict(id=i, file_name=p) for i, p in enumerate(pictures)],
                        "annotations": [
                            dict(image_id=i, id=10 * i + k, caption=c)
                            for i in range(rows)
                            for k, c in enumerate(("A red circle.", "A circle that's red on gray", "The shape"))
                        ],
                    }
                )
            },
            "samples",
            rows,
            set(),
        ),
    }
