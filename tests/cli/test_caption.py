"""saccade caption: every kind of input and result; killed, resumed, in shards, on a full disk; and what is wrong with an item
but not with the job."""
import base64
import glob
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tarfile
import time

from cli import SACCADE, TIMEOUT_S, Case, main, saccade, write_png

PICTURES = sorted(glob.glob("samples/picture*"))
VIDEO = "samples/drawn/drawn001_4.mp4"


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def lines(*path):
    return [json.loads(line) for line in read(*path).decode().splitlines()]


class CaptionCase(Case):
    def fill(self, name="in", n=12):
        """A folder of n pictures with names of their own."""
        folder = self.path(name)
        os.makedirs(folder)
        for i in range(n):
            source = PICTURES[i % len(PICTURES)]
            shutil.copy(source, os.path.join(folder, f"p{i:03d}{os.path.splitext(source)[1]}"))
        return folder

    def caption(self, *arguments, code=0, environment=None, **options):
        names = ("SLURM_", "JOB_COMPLETION", "OMPI_", "PMI_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        run = saccade("caption", *arguments, "--max-tokens", options.pop("tokens", 2), env=dict(env, **(environment or {})),
                      **options)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def journal(self, out, index=0, count=1):
        return os.path.join(out, f"shard-{index:05d}-of-{count:05d}", "journal.jsonl")


class Inputs(CaptionCase):
    def test_a_folder_in_every_format(self):
        folder, out = self.fill(n=4), self.path("out")
        os.makedirs(os.path.join(folder, "sub"))
        shutil.copy(VIDEO, os.path.join(folder, "sub", "clip77.mp4"))
        shutil.copy(PICTURES[0], os.path.join(folder, "sub", "clip77.png"))     # the same name but for its ending
        with open(os.path.join(folder, "broken99.jpg"), "w") as f:
            f.write("no picture")
        formats = [x for name in ("jsonl", "text", "tar") for x in ("--format", name)]
        run = self.caption(folder, "--out", out, *formats, "--json", code=75, tokens=40)
        self.assertIn("1 of 7 items failed", run.stderr)
        rows = lines(out, "captions.jsonl")
        self.assertEqual([r["id"] for r in rows],
                         ["broken99.jpg", "p000.png", "p001.jpg", "p002.jpg", "p003.png", "sub/clip77.mp4", "sub/clip77.png"])
        self.assertEqual([r["index"] for r in rows], list(range(7)))
        self.assertEqual(rows[0]["error"]["status"], "BAD_FILE")
        self.assertEqual(rows[1]["caption"], "A small red diamond at the bottom right and the number 12 at the top left on a "
                                             "gray background.")
        self.assertEqual((rows[1]["finish"], rows[1]["media"], rows[5]["media"], rows[5]["frames"]), ("stop", "image", "video", 4))
        files = sorted(os.path.relpath(os.path.join(where, name), os.path.join(out, "text"))
                       for where, _, names in os.walk(os.path.join(out, "text")) for name in names)
        self.assertEqual(files, ["p000.txt", "p001.txt", "p002.txt", "p003.txt", "sub/clip77.png.txt", "sub/clip77.txt"])
        self.assertEqual(read(out, "text", "p000.txt").decode(), rows[1]["caption"] + "\n")
        with tarfile.open(os.path.join(out, "tar", "captions.tar")) as tar:
            self.assertEqual(tar.getnames()[:3], ["broken99.jpg.json", "p000.png.txt", "p000.png.json"])
            self.assertEqual(json.load(tar.extractfile("p000.png.json")), rows[1])
        report = json.loads(run.stdout)
        self.assertEqual((report["items"], report["captions"], report["failed"], report["complete"]), (7, 6, 1, True))
        self.assertEqual(report["errors"], {"BAD_FILE": {"items": 1, "first": rows[0]["error"]["text"], "ids": ["broken99.jpg"]}})
        self.assertEqual(json.loads(read(os.path.dirname(self.journal(out)), "report.json")), report)
        # COCO wants one number for each; two have 77
        self.assert_refused(self.caption("merge", out, "--format", "coco", code=65), 65, "both have image_id 77")
        # another file in the place of one that failed, or that has a caption, is another item
        shutil.copy(PICTURES[1], os.path.join(folder, "broken99.jpg"))
        self.caption(folder, "--out", out, tokens=40)
        self.assertEqual([("caption" in r, r["index"]) for r in lines(out, "captions.jsonl")], [(True, i) for i in range(7)])
        shutil.copy(PICTURES[2], os.path.join(folder, "p000.png"))
        report = json.loads(self.caption(folder, "--out", out, "--json", tokens=40).stdout)
        self.assertEqual((report["this_run"]["captions"], report["captions"], report["away"]), (1, 7, 1))
        self.assertEqual(lines(out, "captions.jsonl")[1]["caption"], lines(out, "captions.jsonl")[3]["caption"])

    def test_a_manifest(self):
        frames = self.path("frames")
        os.makedirs(frames)
        for i, p in enumerate(PICTURES[:2]):
            shutil.copy(p, os.path.join(frames, f"{i}{os.path.splitext(p)[1]}"))
        shutil.copy(PICTURES[0], self.path("a.png"))
        shutil.copy(PICTURES[1], self.path("b.jpg"))
        rows = [dict(image="a.png", image_id=9), dict(id="asked", image="a.png", prompt="What color is the background?"),
                dict(id="two", image=["a.png", os.path.abspath(self.path("b.jpg"))]), dict(id="frames", frames="frames"),
                dict(id="video", video=os.path.abspath(VIDEO)), dict(id="gone", image="gone.png"), dict(image=7)]
        manifest = self.path("m.jsonl", "\n".join(map(json.dumps, rows)) + "\n{what}\n")
        out = self.path("out")
        self.caption(manifest, "--out", out, "--format", "jsonl", "--format", "coco", code=75)
        got = {r["id"]: r for r in lines(out, "captions.jsonl")}
        self.assertEqual(list(got), ["a.png", "asked", "two", "frames", "video", "gone", "m.jsonl:7", "m.jsonl:8"])
        self.assertEqual(got["asked"]["caption"], "gray")
        self.assertEqual([got[i]["frames"] for i in ("two", "frames", "video")], [2, 2, 4])
        self.assertEqual([got[i]["error"]["status"] for i in ("gone", "m.jsonl:7", "m.jsonl:8")],
                         ["NOT_FOUND", "BAD_FILE", "BAD_FILE"])
        coco = json.loads(read(out, "captions.json"))
        self.assertEqual([c["image_id"] for c in coco], [9, "asked", "two", "frames", "video"])
        # --retry asks again what failed, and nothing else
        shutil.copy(PICTURES[2], self.path("gone.png"))
        before = read(self.journal(out))
        self.caption(manifest, "--out", out, code=75)
        self.assertEqual(read(self.journal(out)), before)
        self.caption(manifest, "--out", out, "--retry", code=75)
        self.assertEqual(len(lines(out, "captions.jsonl")), 8)
        self.assertIn("caption", {r["id"]: r for r in lines(out, "captions.jsonl")}["gone"])
        self.assertEqual(len(lines(self.journal(out))), 1 + 8 + 3)

    def test_lines_of_a_manifest_that_say_nothing(self):
        write_png(self.path("a.png"))
        rows = [dict(id="image", image=[]), dict(id="video", video=[]), dict(id="both", image="a.png", video=[])]
        rows += [dict(id=f"image_id {v}", image="a.png", image_id=v) for v in ([], {}, 1.5, None, True)]
        rows += [dict(id=f"image_id {v}", image="a.png", image_id=v) for v in (7, "seven")]
        out = self.path("out")
        self.caption(self.path("m.jsonl", "\n".join(map(json.dumps, rows))), "--out", out, "--format", "jsonl", "--format", "coco",
                     code=75)
        errors = [r.get("error", {}).get("text") for r in lines(out, "captions.jsonl")]
        self.assertEqual(errors, ["expected the name of a file, found an empty list"] * 3
                         + ["image_id: expected a whole number or a text"] * 5 + [None] * 2)
        self.assertEqual([c["image_id"] for c in json.loads(read(out, "captions.json"))], [7, "seven"])

    def test_webdataset_shards(self):
        def make(name, members, mode="w"):
            with tarfile.open(self.path(name), mode) as tar:
                for member, data in members:
                    info = tarfile.TarInfo(member)
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
            return self.path(name)
        pictures = [read(p) for p in PICTURES]
        kind = [os.path.splitext(p)[1] for p in PICTURES]
        make("s-000.tar", [x for i in range(3) for x in ((f"k{i}.txt", b"old"), (f"k{i}{kind[i]}", pictures[i]))])
        make("s-001.tar", [(f"d/k3{kind[3]}", pictures[3]), ("d/k4.json", b"{}"), ("../evil.png", pictures[0]),
                           ("v.mp4", read(VIDEO))])
        make("z.tar.gz", [(f"k{i}{kind[i]}", pictures[i]) for i in range(2)], "w:gz")
        with open(self.path("cut.tar"), "wb") as f:
            f.write(read(make("whole.tar", [(f"k{i}{kind[i]}", pictures[i]) for i in range(3)]))[:-len(pictures[2]) - 9000])
        inputs = [self.path("s-{000..001}.tar"), self.path("z.tar.gz"), self.path("cut.tar")]
        out, apart = self.path("out"), self.path("apart")
        self.caption(*inputs, "--out", out, "--format", "tar", "--format", "jsonl", "--format", "text", code=75)
        rows = lines(out, "captions.jsonl")
        self.assertEqual([(r["source"], r["id"], "error" in r) for r in rows[:9]],
                         [(0, "k0", False), (0, "k1", False), (0, "k2", False), (1, "d/k3", False), (1, "d/k4", True),
                          (1, "../evil", True), (1, "v", False), (2, "k0", False), (2, "k1", False)])
        self.assertEqual((rows[0]["__key__"], rows[0]["__url__"]), ("k0", "s-000.tar"))
        self.assertEqual(rows[0]["caption"], rows[7]["caption"])
        self.assertTrue(rows[-1]["id"] == "cut.tar" and "runcated" in rows[-1]["error"]["text"], rows[-1])
        self.assertEqual(sorted(os.listdir(os.path.join(out, "tar"))), ["cut.tar", "s-000.tar", "s-001.tar", "z.tar"])
        with tarfile.open(os.path.join(out, "tar", "s-000.tar")) as tar:
            self.assertEqual(tar.getnames(), [f"k{i}.{e}" for i in range(3) for e in ("txt", "json")])
            self.assertEqual(tar.extractfile("k1.txt").read().decode(), rows[1]["caption"])
        self.assertFalse(os.path.exists(os.path.join(out, "evil.txt")) or os.path.exists(self.path("evil.txt")))
        for i in range(2):      # whole tars are dealt out
            self.caption(*inputs, "--out", apart, "--shard", f"{i}/2", "-q", code=75 * i)
            self.assertEqual({r["source"] % 2 for r in lines(self.journal(apart, i, 2))[1:]}, {i})
        self.caption("merge", apart, "--format", "jsonl", "--format", "tar", code=75)
        self.assertEqual(read(apart, "captions.jsonl"), read(out, "captions.jsonl"))
        self.assertEqual(read(apart, "tar", "s-001.tar"), read(out, "tar", "s-001.tar"))

    def test_empty_files(self):
        """More of them than items that may fail for want of memory before a job ends."""
        folder = self.fill(n=1)
        for i in range(10):
            open(os.path.join(folder, f"e{i}.png"), "wb").close()
        with tarfile.open(self.path("e.tar"), "w") as tar:
            tar.addfile(tarfile.TarInfo("a.png"))
            tar.addfile(tarfile.TarInfo("b.mp4"))
        urls = ["data:image/png;base64,", "file://" + os.path.join(folder, "e0.png")]
        self.path("b.jsonl", "\n".join(json.dumps(dict(custom_id=str(i), body=dict(messages=[dict(role="user", content=[
            dict(type="image_url", image_url=dict(url=url))])]))) for i, url in enumerate(urls)))
        for name, n in ("in", 10), ("e.tar", 2), ("b.jsonl", 2):
            self.caption(self.path(name), "--out", self.path("out-" + name), "--format", "jsonl", code=75)
            errors = [r["error"] for r in lines(self.path("out-" + name), "captions.jsonl") if "error" in r]
            self.assertEqual([e["status"] for e in errors], ["BAD_FILE"] * n)
            self.assertRegex(" ".join(e["text"] for e in errors), r"\A((the file is empty|a data: address that holds no bytes) ?)+\Z")

    def test_an_openai_batch(self):
        data = "data:image/png;base64," + base64.b64encode(read(PICTURES[0])).decode()
        shutil.copy(VIDEO, self.path("v.mp4"))
        secret = os.path.join(os.path.dirname(self.folder), os.path.basename(self.folder) + "-outside.png")
        write_png(secret)
        self.addCleanup(os.remove, secret)
        os.symlink(secret, self.path("link.png"))

        def ask(i, *parts, **body):
            content = [dict(type=f"{kind}_url", **{f"{kind}_url": dict(url=url)}) for kind, url in parts]
            content.append(dict(type="text", text="What color is the background?"))
            return json.dumps(dict(custom_id=i, method="POST", url="/v1/chat/completions",
                                   body=dict(model="demo", messages=[dict(role="user", content=content)], **body)))
        requests = [ask("data//1", ("image", data)), ask("one token", ("image", data), max_tokens=1),
                    ask("video", ("video", "file://" + self.path("v.mp4")), media_io_kwargs=dict(video=dict(num_frames=2))),
                    ask("http", ("image", "http://127.0.0.1/x.png")), ask("outside", ("image", "file://" + secret)),
                    ask("dots", ("image", f"file://{self.folder}/../{os.path.basename(secret)}")),
                    ask("link", ("image", "file://" + self.path("link.png"))), ask("base64", ("image", data[:-5] + "*!")),
                    ask("two answers", ("image", data), n=2), json.dumps(dict(custom_id="empty", body={})), "{"]
        out = self.path("out")
        self.caption(self.path("b.jsonl", "\n".join(requests)), "--out", out, code=75, tokens=5)
        rows = {r["custom_id"]: r for r in lines(out, "batch_output.jsonl")}
        self.assertEqual(len(rows), 11)
        body = rows["data//1"]["response"]["body"]
        self.assertEqual((rows["data//1"]["response"]["status_code"], rows["data//1"]["error"]), (200, None))
        self.assertEqual(body["choices"][0]["message"], dict(role="assistant", content="gray"))
        self.assertEqual(body["usage"]["total_tokens"], body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"])
        self.assertEqual(rows["one token"]["response"]["body"]["usage"]["completion_tokens"], 1)
        self.assertEqual(rows["video"]["error"], None)
        codes = {i: rows[i]["error"]["code"] for i in rows if rows[i]["error"]}
        self.assertEqual(codes, {"http": "UNSUPPORTED", "outside": "BAD_ARGUMENT", "dots": "BAD_ARGUMENT", "link": "BAD_ARGUMENT",
                                 "base64": "BAD_FILE", "two answers": "UNSUPPORTED", "empty": "BAD_FILE", "b.jsonl:11": "BAD_FILE"})


    def test_files_and_patterns(self):
        folder, out = self.fill(n=4), self.path("out")
        self.path("in/notes.md", "x")
        run = self.caption(PICTURES[0], "--out", self.path("one"))
        self.assertIn("1 of 1 item", run.stdout)
        self.assertEqual(lines(self.path("one"), "captions.jsonl")[0]["id"], PICTURES[0])
        self.caption(folder + "/p00[12]*", "--out", out)
        self.assertEqual([os.path.basename(r["id"]) for r in lines(out, "captions.jsonl")], ["p001.jpg", "p002.jpg"])
        report = json.loads(self.caption(folder + "/*", os.path.join(folder, "gone.png"), "--out", out, "--json", code=75).stdout)
        self.assertEqual((report["captions"], report["failed"], report["this_run"]["captions"], report["skipped"]),
                         (4, 1, 2, {"md": 1}))

    def test_tables_and_lists(self):
        folder = self.fill(n=3)
        shutil.copy(VIDEO, os.path.join(folder, "v.mp4"))
        names = ["p000.png", "p001.jpg", "v.mp4"]
        kept = {}
        for name, text in (("l.txt", "".join(f"in/{n}\r\n" for n in names)), ("f.csv", "path\n" + "".join(f"in/{n}\n" for n in names)),
                           ("m.jsonl", "".join(json.dumps({"video" if n == "v.mp4" else "image": "in/" + n}) + "\n" for n in names))):
            out = self.path("out-" + name)
            self.caption(self.path(name, text), "--out", out, "--num-frames", 2)
            kept[name] = read(out, "captions.jsonl")
        self.assertEqual(len(set(kept.values())), 1)
        table = self.path("t.csv", 'id,url,"the ""file""",prompt,image_id\n'
                                   'a,x,in/p000.png,"What color is\nthe background?",007\nb,x,in/gone.png,,\nc,x\n,x,in/p002.jpg,,z\n')
        out = self.path("out-t")
        self.assert_refused(self.caption(table, "--out", out, code=65), 65, 'there are: id, url, the "file"')
        self.assert_refused(self.caption(table, "--column", "file", "--out", out, code=78), 78, "has no column 'file'")
        self.caption(table, "--column", 'the "file"', "--out", out, "--format", "jsonl", "--format", "coco", code=75)
        rows = lines(out, "captions.jsonl")
        self.assertEqual([(r["id"], r.get("error", {}).get("status")) for r in rows],
                         [("a", None), ("b", "NOT_FOUND"), ("t.csv:4", "BAD_FILE"), ("in/p002.jpg", None)])
        self.assertEqual((rows[0]["caption"], rows[0]["image_id"], rows[3]["image_id"]), ("gray", 7, "z"))
        shutil.copy(PICTURES[1], os.path.join(folder, "gone.png"))
        self.caption(table, "--column", 'the "file"', "--out", out, "--retry", code=75)
        self.assertIn("caption", lines(out, "captions.jsonl")[1])

    def test_samples_with_their_pictures(self):
        """A folder and a list into WebDataset shards, which are an input again and then give the same captions."""
        folder = self.fill(n=3)
        shutil.copy(PICTURES[0], os.path.join(folder, "p001.png"))      # p001.jpg is there
        self.path("in/broken.jpg", "x")
        os.makedirs(self.path("in/d.e"))
        shutil.copy(PICTURES[2], self.path("in/d.e/x.y.jpg"))
        listed = self.path("l.txt", "".join(f"in/{n}\n" for n in sorted(os.listdir(folder)) if n.startswith("p")))
        out = self.path("out")
        self.caption(folder, "--out", out, "--format", "webdataset", "--format", "jsonl", code=75)
        captions = {r["id"]: r.get("caption") for r in lines(out, "captions.jsonl")}
        with tarfile.open(os.path.join(out, "webdataset", "captions.tar")) as tar:
            held = {m.name: tar.extractfile(m).read() for m in tar}
        self.assertEqual(sorted(n for n in held if not n.endswith((".txt", ".json"))),
                         ["d.e/x_y.jpg", "p000.png", "p001.jpg", "p001_2.png", "p002.jpg"])
        for name, i in (("d.e/x_y.jpg", "d.e/x.y.jpg"), ("p001_2.png", "p001.png"), ("p000.png", "p000.png")):
            self.assertEqual(held[name], read(folder, i))
            self.assertEqual(held[os.path.splitext(name)[0] + ".txt"].decode(), captions[i])
        again = self.path("again")
        self.caption(os.path.join(out, "webdataset", "captions.tar"), "--out", again, "--format", "webdataset", "--format", "jsonl")
        self.assertEqual([r["caption"] for r in lines(again, "captions.jsonl")], [c for c in captions.values() if c])
        with tarfile.open(os.path.join(again, "webdataset", "captions.tar")) as tar:
            self.assertEqual({m.name: tar.extractfile(m).read() for m in tar if not m.name.endswith(".json")},
                             {n: b for n, b in held.items() if not n.endswith(".json")})
        for i in range(2):
            self.caption(listed, "--out", self.path("parts"), "--shard", f"{i}/2")
        self.assert_refused(self.caption("merge", self.path("parts"), "--format", "webdataset", code=64), 64, "give it behind")
        self.caption("merge", self.path("parts"), listed, "--format", "webdataset")
        with tarfile.open(self.path("parts/webdataset/captions.tar")) as tar:
            self.assertEqual(len(tar.getnames()), 12)
        self.assert_refused(self.caption("merge", self.path("parts"), folder, "--format", "webdataset", code=78), 78, "not the input")

    def test_samples_of_pictures_that_changed(self):
        """No caption goes to another picture."""
        folder, out = self.fill(n=2), self.path("parts")
        for i in range(2):
            self.caption(folder, "--out", out, "--shard", f"{i}/2")
        merge = ["merge", out, folder, "--format", "webdataset"]
        picture = os.path.join(folder, "p000.png")
        os.utime(picture, (1, 1))     # the same
        self.caption(*merge)
        made = read(out, "webdataset", "captions.tar")
        data = bytearray(read(picture))
        data[-2] ^= 1
        with open(picture, "wb") as f:
            f.write(data)
        self.assert_refused(self.caption(*merge, code=78), 78, "'p000.png' has changed since it was described")
        self.assertEqual(read(out, "webdataset", "captions.tar"), made)

    def test_names_in_tars(self):
        """Other programs read them: no header for names in ASCII, the bytes of all others."""
        for name in "plain", "\u00fcber":
            folder, out = self.fill(name, n=1), self.path("out-" + name)
            os.rename(glob.glob(os.path.join(folder, "*"))[0], os.path.join(folder, name + ".png"))
            self.caption(folder, "--out", out, "--format", "tar", "--format", "jsonl")
            self.assertEqual(b"hdrcharset" in read(out, "tar", "captions.tar"), name != "plain")
            with tarfile.open(os.path.join(out, "tar", "captions.tar")) as tar:
                self.assertEqual(tar.getnames(), [f"{name}.png.{e}" for e in ("txt", "json")])

    def test_what_an_openai_batch_does_not_support(self):
        def ask(method=None, url=None, **body):
            route = {k: v for k, v in (("method", method), ("url", url)) if v is not None}
            return dict(custom_id=str(len(requests)), **route, body=dict(messages=[dict(role="user", content="Hello.")], **body))
        requests = []
        asked = [("method: expected POST, found GET", dict(method="GET")), ("method: expected POST", dict(method=1)),
                 ("url: expected /v1/chat/completions, found /v1/embeddings", dict(url="/v1/embeddings")),
                 ("url: expected /v1/chat/completions, found /v1/completions", dict(url="/v1/completions")),
                 ("tools: not in a batch", dict(tools=[dict(type="function", function=dict(name="f"))])),
                 ("functions: not in a batch", dict(functions=[dict(name="f")])),
                 ("logprobs: not in a batch", dict(logprobs=True)), ("top_logprobs: not in a batch", dict(top_logprobs=2)),
                 ("logit_bias: not in a batch", dict(logit_bias={"5": -100})), ("stream: not in a batch", dict(stream=True)),
                 ("best_of: only 1 answer", dict(best_of=2)), ("n: only 1 answer", dict(n=2)),
                 ("response_format: only text", dict(response_format=dict(type="json_object"))),
                 ("response_format: only text", dict(response_format="text")),
                 ("min_tokens: not in a batch", dict(min_tokens=3)), ("ignore_eos: not in a batch", dict(ignore_eos=True)),
                 ("presence_penalty: expected a number from -2 to 2", dict(presence_penalty=3)),
                 ("", dict(method="POST", url="/v1/chat/completions", n=1, tools=[], logprobs=False, top_logprobs=None, logit_bias={},
                           response_format=dict(type="text"), stream=False, user="me", min_tokens=0, frequency_penalty=.1)),
                 ("", dict())]
        for _, row in asked:
            requests.append(ask(**row))
        out = self.path("out")
        self.caption(self.path("b.jsonl", "\n".join(map(json.dumps, requests))), "--out", out, code=75)
        for (needle, row), got in zip(asked, lines(out, "batch_output.jsonl"), strict=True):
            self.assertEqual(got["response"] is None, bool(needle), row)
            self.assertIn(needle, got["error"]["message"] if needle else "")
            self.assertEqual(got["error"]["code"] if needle else "", "BAD_FILE" if "penalty" in needle else needle and "UNSUPPORTED")


class Resuming(CaptionCase):
    def start(self, *arguments, tokens=2, **options):
        return subprocess.Popen([SACCADE, "caption", *map(str, arguments), "--max-tokens", str(tokens)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, **options)

    def wait_for(self, process, journal, n_lines):
        end = time.monotonic() + TIMEOUT_S
        while process.poll() is None and time.monotonic() < end:
            if os.path.exists(journal) and read(journal).count(b"\n") >= n_lines:
                return
            time.sleep(.002)

    def assert_same(self, out, whole, n):
        self.assertEqual(read(out, "captions.jsonl"), read(whole, "captions.jsonl"))
        self.assertEqual(sorted(read(self.journal(out)).splitlines()[1:]), sorted(read(self.journal(whole)).splitlines()[1:]))
        self.assertEqual(len({r["id"] for r in lines(out, "captions.jsonl")}), n)

    def test_killed_and_resumed(self):
        folder, whole, rng = self.fill(), self.path("whole"), random.Random(3)
        self.caption(folder, "--out", whole)
        for batch, kills in ((1, (0, 4)), (3, (1, 2, 6, 12))):
            out = self.path(f"out{batch}")
            for n_lines in kills:
                process = self.start(folder, "--out", out, "--batch", batch)
                self.wait_for(process, self.journal(out), n_lines)
                time.sleep(rng.random() * .1)
                process.send_signal(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                process.communicate()
            self.caption(folder, "--out", out, "--batch", batch)
            self.assert_same(out, whole, 12)
        # a torn line, a journal cut within its header, and a result that was never written
        text = read(self.journal(whole))
        for torn in text[:-7], text[:200], b"":
            with open(self.journal(out), "wb") as f:
                f.write(torn)
            if torn:
                os.remove(os.path.join(out, "captions.jsonl"))
            self.caption(folder, "--out", out)
            self.assert_same(out, whole, 12)
        self.assertIn("all done before", self.caption(folder, "--out", out).stdout)

    def test_errors_of_earlier_runs_are_reported(self):
        rows = [dict(id="a", image="none.png"), dict(id="b", prompt="What?"), dict(id="c", image=[])]
        manifest, out = self.path("m.jsonl", "\n".join(map(json.dumps, rows))), self.path("out")
        first, again = (json.loads(self.caption(manifest, "--out", out, "--json", code=75).stdout) for _ in range(2))
        self.assertEqual({kind: e["items"] for kind, e in first["errors"].items()}, {"NOT_FOUND": 1, "BAD_FILE": 2})
        self.assertEqual((again["this_run"]["failed"], again["failed"], again["errors"]), (0, 3, first["errors"]))
        text = self.caption(manifest, "--out", out, code=75).stdout
        self.assertIn("2 BAD_FILE, the first: b: expected", text)

    def test_interrupted_and_locked(self):
        folder, out = self.fill(), self.path("out")
        process = self.start(folder, "--out", out, "--batch", 2, tokens=60,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.wait_for(process, self.journal(out), 1)
        process.send_signal(signal.SIGSTOP)     # it holds the shard as long as we like
        self.assertIn("another run", self.caption(folder, "--out", out, code=74, tokens=60).stderr)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        self.assertEqual((process.communicate()[1], process.returncode), ("saccade: cancelled; run again to go on\n", 130))
        self.assertFalse(os.path.exists(os.path.join(out, "captions.jsonl")))
        self.assertIn("12 of 12 items", self.caption(folder, "--out", out, tokens=60).stdout)

    def test_a_full_disk(self):
        folder, out, whole = self.fill(n=6), self.path("out"), self.path("whole")
        self.caption(folder, "--out", whole)
        n = len(read(self.journal(whole)))

        def room(n_bytes):      # a file that may not grow stands for a disk that is full; pixels of a child would be one
            return dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes)))
        run = self.caption(folder, "--out", out, "--trust-media", code=74, **room(n - 300))
        self.assertRegex(run.stderr, r"\Asaccade: .*journal.jsonl: cannot be written: .*\n\Z")
        self.assertGreater(len(lines(self.journal(out))[1:]) if read(self.journal(out)).endswith(b"\n") else 1, 0)
        run = self.caption(folder, "--out", out, "--trust-media", code=74, **room(50))
        self.caption(folder, "--out", out)
        self.assert_same(out, whole, 6)
        # the journal fits, the result does not: what was there stays
        os.remove(os.path.join(out, "captions.jsonl"))
        run = self.caption("merge", out, code=74, **room(500))
        self.assertIn("captions.jsonl: cannot be written", run.stderr)
        self.assertEqual(sorted(os.listdir(out)), ["shard-00000-of-00001"])

    def test_other_settings_are_refused(self):
        folder, out = self.fill(n=2), self.path("out")
        self.caption(folder, "--out", out)
        before = read(self.journal(out))
        for arguments, needle in [(["--kv", "bf16"], "settings.session.kv"), (["--ask", "What?"], "ask is"),
                                  (["--shard", "0/2"], "a job of 1 shards")]:
            self.assertIn(needle, self.caption(folder, "--out", out, *arguments, code=78).stderr)
        self.caption(folder, "--out", out, "--threads", 1)      # makes no difference to the captions
        os.rename(folder, self.path("elsewhere"))
        self.assertIn("begun with another input: 'in'", self.caption(self.path("elsewhere"), "--out", out, code=78).stderr)
        self.assertEqual(read(self.journal(out)), before)


class Growing(CaptionCase):
    """What an input gains is done, and nothing else."""

    def this_run(self, *arguments, **options):
        report = json.loads(self.caption(*arguments, "--json", **options).stdout)
        return report["this_run"]["captions"], report["this_run"]["done_before"], report["captions"]

    def assert_as_if_done_at_once(self, out, *arguments, code=0):
        whole = self.path("whole")
        self.caption(*arguments, "--out", whole, code=code)
        self.assertEqual(read(out, "captions.jsonl"), read(whole, "captions.jsonl"))
        kept = [r for r in lines(self.journal(out))[1:] if not isinstance(r["source"], str)]
        self.assertEqual(sorted(map(json.dumps, kept)), sorted(map(json.dumps, lines(self.journal(whole))[1:])))
        shutil.rmtree(whole)

    def test_a_folder(self):
        folder, out = self.fill(n=4), self.path("out")
        self.assertEqual(self.this_run(folder, "--out", out, "--limit", 2), (2, 0, 2))
        self.assertEqual(self.this_run(folder, "--out", out, "--limit", 3), (1, 2, 3))
        self.assertEqual(self.this_run(folder, "--out", out), (1, 3, 4))
        for name in "a.png", "p001b.png", "z.png":
            shutil.copy(PICTURES[0], os.path.join(folder, name))
        self.assertEqual(self.this_run(folder, "--out", out), (3, 4, 7))
        self.assert_as_if_done_at_once(out, folder)
        self.assertFalse(os.path.exists(self.journal(out) + ".new"))

    def test_shards_of_a_folder(self):
        folder, out = self.fill(n=6), self.path("out")
        for i in range(2):
            self.caption(folder, "--out", out, "--shard", f"{i}/2")
        shutil.copy(PICTURES[0], os.path.join(folder, "a.png"))
        self.caption(folder, "--out", out, "--shard", "0/2")
        self.assertIn("run all shards again", self.caption("merge", out, code=78).stderr)
        self.caption(folder, "--out", out, "--shard", "1/2")
        self.caption("merge", out)
        self.assertEqual(len(lines(out, "captions.jsonl")), 7)

    def test_a_manifest(self):
        rows = [dict(id=f"r{i}", image=os.path.abspath(PICTURES[i])) for i in range(4)]
        manifest, out = self.path("m.jsonl", "\n".join(map(json.dumps, rows[1:3]))), self.path("out")
        self.caption(manifest, "--out", out)
        self.path("m.jsonl", "\n".join(map(json.dumps, rows)))
        self.assertEqual(self.this_run(manifest, "--out", out), (2, 2, 4))
        self.assert_as_if_done_at_once(out, manifest)
        rows[1]["prompt"] = "What color is the background?"
        self.path("m.jsonl", "\n".join(map(json.dumps, rows)))
        self.assertEqual(self.this_run(manifest, "--out", out), (1, 3, 4))
        self.assert_as_if_done_at_once(out, manifest)

    def test_a_table(self):
        """Another header or --column asks for other things of the same rows."""
        pictures = [os.path.abspath(p) for p in PICTURES[:3]]
        row = f"a,{pictures[0]},{pictures[1]},What color is the background?,z\n"
        table, out = self.path("t.csv", "id,image,thumb,note,x\n" + row), self.path("out")
        self.assertEqual(self.this_run(table, "--out", out), (1, 0, 1))
        self.assertEqual(self.this_run(table, "--out", out, "--column", "thumb"), (1, 0, 1))
        self.assert_as_if_done_at_once(out, table, "--column", "thumb")
        self.assertEqual(self.this_run(table, "--out", out), (0, 1, 1))
        self.path("t.csv", "id,image,thumb,prompt,x\n" + row)
        self.assertEqual(self.this_run(table, "--out", out), (1, 0, 1))
        self.path("t.csv", "id,image,thumb,prompt,y\n" + row)     # a column that nobody looks at
        self.assertEqual(self.this_run(table, "--out", out), (0, 1, 1))
        self.assert_as_if_done_at_once(out, table)

    def test_pictures_that_go_and_come_back(self):
        folder, out, away = self.fill(n=5), self.path("out"), self.path("away")
        self.caption(folder, "--out", out, "--limit", 4)
        os.rename(os.path.join(folder, "p001.jpg"), away)
        self.assertEqual(self.this_run(folder, "--out", out), (1, 3, 4))
        run = self.caption(folder, "--out", out)
        self.assertIn("away       1 caption of items", run.stdout)
        self.assert_as_if_done_at_once(out, folder)
        os.rename(away, os.path.join(folder, "p001.jpg"))
        self.assertEqual(self.this_run(folder, "--out", out), (0, 5, 5))
        self.assertEqual(self.this_run(folder, "--out", out, "--limit", 2), (0, 2, 2))
        self.assertEqual(self.this_run(folder, "--out", out), (0, 5, 5))
        self.assert_as_if_done_at_once(out, folder)

    def test_pictures_that_change(self):
        folder, out = self.fill(n=3), self.path("out")
        first, second = (os.path.join(folder, name) for name in ("p000.png", "p001.jpg"))
        os.utime(second, (0, 0))    # as archives have it that hold no times
        self.caption(folder, "--out", out)
        os.utime(first, (1, 1))     # the same picture
        self.assertEqual(self.this_run(folder, "--out", out), (0, 3, 3))
        data = bytearray(read(second))
        data[-2] ^= 1               # another one, as long
        with open(second, "wb") as f:
            f.write(data)
        os.utime(second, (2, 2))
        self.assertEqual(self.this_run(folder, "--out", out), (1, 2, 3))
        self.assertIn("away       1 caption of items", self.caption(folder, "--out", out).stdout)

    def test_shards_of_which_one_changes(self):
        """What went is no item of any shard; what came back has its caption."""
        folder, out, gone = self.fill(n=6), self.path("out"), self.path("gone")
        shards = [["--shard", f"{i}/2"] for i in range(2)]
        for shard in shards:
            self.caption(folder, "--out", out, *shard)
        self.caption("merge", out)
        before = read(out, "captions.jsonl")
        os.rename(os.path.join(folder, "p002.jpg"), gone)
        reports = [json.loads(self.caption(folder, "--out", out, *shard, "--json").stdout) for shard in shards]
        self.assertEqual((sum(r["away"] for r in reports), sum(r["this_run"]["captions"] for r in reports)), (1, 0))
        self.caption("merge", out)
        self.assertEqual(len(lines(out, "captions.jsonl")), 5)
        os.rename(gone, os.path.join(folder, "p002.jpg"))
        for shard in shards:
            self.caption(folder, "--out", out, *shard)
        self.caption("merge", out)
        self.assertEqual(read(out, "captions.jsonl"), before)

    def test_tars_that_come_and_go(self):
        """A limit that grows over several tars; a pattern that grows; a tar that is left out."""
        for k in range(3):
            with tarfile.open(self.path(f"s-{k:03d}.tar"), "w") as tar:
                for i in range(2):
                    tar.add(PICTURES[i], f"k{k}{i}{os.path.splitext(PICTURES[i])[1]}")
        out = self.path("out")
        self.assertEqual(self.this_run(self.path("s-{001..002}.tar"), "--out", out, "--limit", 1), (1, 0, 1))
        self.assertEqual(self.this_run(self.path("s-{001..002}.tar"), "--out", out, "--limit", 3), (2, 1, 3))
        self.assertEqual(self.this_run(self.path("s-{001..002}.tar"), "--out", out), (1, 3, 4))
        self.assertEqual(self.this_run(self.path("s-{000..002}.tar"), "--out", out), (2, 4, 6))
        self.assert_as_if_done_at_once(out, self.path("s-{000..002}.tar"))
        self.assertEqual(self.this_run(self.path("s-000.tar"), self.path("s-002.tar"), "--out", out), (0, 4, 4))
        self.assert_as_if_done_at_once(out, self.path("s-000.tar"), self.path("s-002.tar"))
        self.assertEqual(self.this_run(self.path("s-{000..002}.tar"), "--out", out), (0, 6, 6))

    def test_a_tar_that_is_away_for_a_moment(self):
        for k in range(2):
            with tarfile.open(self.path(f"s-{k:03d}.tar"), "w") as tar:
                for i in range(3):
                    tar.add(PICTURES[i], f"k{k}{i}{os.path.splitext(PICTURES[i])[1]}")
        shards, out, second, away = self.path("s-{000..001}.tar"), self.path("out"), self.path("s-001.tar"), self.path("away")
        os.rename(second, away)
        self.assertEqual(self.this_run(shards, "--out", out, code=75), (3, 0, 3))
        self.assertEqual(self.this_run(shards, "--out", out, code=75), (0, 4, 3))
        self.assertEqual(self.this_run(shards, "--out", out, "--retry", code=75), (0, 3, 3))
        with open(second, "wb") as f:     # not whole yet
            f.write(read(away)[:os.path.getsize(away) * 2 // 3])
        self.caption(shards, "--out", out, code=75)
        self.assertEqual(self.this_run(shards, "--out", out, "--limit", 1), (0, 1, 1))     # of the first, before any error
        self.assertEqual(self.this_run(second, "--out", out, "--limit", 1), (0, 1, 1))
        self.caption(shards, "--out", out, code=75)
        os.rename(away, second)
        self.caption(shards, "--out", out, "--retry")
        self.assert_as_if_done_at_once(out, shards)
        # away again: its captions are not lost, and a scheduler is told to try again
        before = read(self.journal(out))
        os.rename(second, away)
        self.assertIn("run again when it is there", self.caption(shards, "--out", out, code=74).stderr)
        self.assertEqual(read(self.journal(out)), before)
        os.rename(away, second)
        self.assertEqual(self.this_run(shards, "--out", out), (0, 6, 6))

    def test_no_tar_at_all(self):
        out = self.path("out")
        for name, needle in ("n-{000..002}.tar", "nor any other of the 3"), ("n.tar", "n.tar: no such file"):
            self.assert_refused(self.caption(self.path(name), "--out", out, code=66), 66, needle)
        self.assertFalse(os.path.exists(out))


class Report(CaptionCase):
    def test_what_failed_is_named(self):
        folder, out = self.fill(n=1), self.path("out")
        for i in range(7):
            with open(os.path.join(folder, f"bad{i}.png"), "w") as f:
                f.write("no picture")
        run = self.caption(folder, "--out", out, code=75)
        self.assertIn("7 BAD_FILE, the first: bad0.png: not a picture", run.stdout)
        self.assertIn("also bad1.png, bad2.png, bad3.png, bad4.png, bad5.png, bad6.png\n", run.stdout)
        listed = os.path.join(os.path.dirname(self.journal(out)), "failed.jsonl")
        self.assertIn("all of them: " + listed, run.stdout)
        self.assertEqual([(r["id"], r["source"], r["error"]["status"]) for r in lines(listed)],
                         [(f"bad{i}.png", "in", "BAD_FILE") for i in range(7)])
        report = json.loads(read(os.path.dirname(listed), "report.json"))
        self.assertEqual(report["errors"]["BAD_FILE"]["ids"], [f"bad{i}.png" for i in range(7)])
        for i in range(7):
            shutil.copy(PICTURES[0], os.path.join(folder, f"bad{i}.png"))
        self.caption(folder, "--out", out)
        self.assertFalse(os.path.exists(listed))

    def test_files_of_a_folder_that_are_left_out(self):
        folder, out = self.fill(n=1), self.path("out")
        for name in "a.dng", "b.CR2", "c.cr2", "README", ".hidden.cr2", "d.\u00fc":
            self.path("in/" + name, "x")
        run = self.caption(folder, "--out", out)
        self.assertIn("skipped    5 files: no pictures or videos that can be read ",
                      run.stdout)
        report = json.loads(read(os.path.dirname(self.journal(out)), "report.json"))
        self.assertEqual(report["skipped"], {"dng": 1, "cr2": 2, "no ending": 1, "other": 1})
        self.assertEqual(report["skipped_files"], ["README", "a.dng", "b.CR2", "c.cr2", "d.\u00fc"])
        self.assertIn("\n           README, a.dng, b.CR2, c.cr2, d.\u00fc\n", run.stdout)
        os.remove(os.path.join(folder, "p000.png"))
        run = self.caption(folder, "--out", self.path("none"), code=65)
        self.assert_refused(run, 65, "2 of its 5 files are .cr2; convert them to PNG, JPEG or WebP")


def children(pid):
    try:
        return [int(p) for p in read(f"/proc/{pid}/task/{pid}/children").split()]
    except OSError:     # it has ended, or the kernel has no such file
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        return [int(p) for p in out.stdout.split()]


class Decoding(CaptionCase):
    """Files are decoded by children of a helper process, which may do nothing else."""

    def test_the_same_captions_as_in_one_process(self):
        folder = self.fill(n=3)
        shutil.copy(VIDEO, os.path.join(folder, "v.mp4"))
        with open(os.path.join(folder, "broken.jpg"), "w") as f:
            f.write("no picture")
        names = sorted(os.listdir(folder))
        rows = [{"video" if n == "v.mp4" else "image": os.path.join(folder, n)} for n in names]
        rows += [dict(id="frames", frames=self.path("list")), dict(id="both", image=os.path.join(folder, "p000.png"),
                                                                  video=os.path.join(folder, "v.mp4"))]
        self.path("list", "".join(f"{os.path.join(folder, n)} {i}\n" for i, n in enumerate(names[1:3])))
        manifest = self.path("m.jsonl", "\n".join(map(json.dumps, rows)))
        for options in ["--num-frames", 2], ["--ctx", 600]:     # as many as were asked for; as many as there is room for
            outs = [self.path(f"{name}{options[1]}") for name in ("child", "here")]
            self.caption(manifest, "--out", outs[0], *options, code=75)
            self.caption(manifest, "--out", outs[1], *options, "--trust-media", code=75)
            self.assertEqual(*(read(out, "captions.jsonl") for out in outs))
            self.assertEqual([os.path.basename(r["id"]) for r in lines(outs[0], "captions.jsonl") if "error" in r],
                             ["broken.jpg"])

    def test_formats_of_other_libraries(self):
        """The filter lets them work: the same captions as in one process; a damaged file is one line."""
        goldens = "tests/golden/vision/formats"
        built = subprocess.run([SACCADE, "--version"], capture_output=True, text=True, check=True).stdout
        kinds = dict(tif="TIFF", jp2="JPEG 2000", j2k="JPEG 2000", jxl="JPEG XL", heic="HEIC", avif="AVIF")
        os.makedirs(self.path("in"))
        for name in os.listdir(goldens):
            if not name.endswith(".png"):
                shutil.copy(os.path.join(goldens, name), self.path("in"))
        shutil.copy(PICTURES[0], self.path("in"))
        readable = [n for n in sorted(os.listdir(self.path("in"))) if kinds.get(n.rsplit(".", 1)[1], "PNG") in built]
        damaged = [n for n in readable if n.startswith("bad_")]
        outs = [self.path(name) for name in ("child", "here")]
        code = 75 if damaged else 0
        self.caption(self.path("in"), "--out", outs[0], code=code)
        self.caption(self.path("in"), "--out", outs[1], "--trust-media", code=code)
        self.assertEqual(*(read(out, "captions.jsonl") for out in outs))
        rows = lines(outs[0], "captions.jsonl")
        self.assertEqual([r["id"] for r in rows], readable)
        self.assertEqual([r["id"] for r in rows if "error" in r], damaged)
        for r in rows:
            if "error" in r:
                self.assertEqual((r["error"]["status"], "\n" in r["error"]["text"]), ("BAD_FILE", False))
                self.assertIn(kinds[r["id"].rsplit(".", 1)[1]] + " picture: ", r["error"]["text"])

    def test_limits_that_the_job_was_started_under_stay(self):
        """Nobody may raise a hard limit, so the child's own must not be above it."""
        folder = self.fill(n=1)
        for what, most in (resource.RLIMIT_CPU, 900), (resource.RLIMIT_FSIZE, 8 << 20):
            out = self.path(f"out{what}")
            self.caption(folder, "--out", out, preexec_fn=lambda w=what, m=most: resource.setrlimit(w, (m, m)))
            self.assertIn("caption", lines(out, "captions.jsonl")[0])

    def kill_a_child(self, folder, out):
        """After the first item, so that it is an item's; how many were met."""
        process = subprocess.Popen([SACCADE, "caption", folder, "--out", out, "--num-frames", "2", "--max-tokens", "2", "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        n, journal = 0, self.journal(out)
        while process.poll() is None and not n:
            if not os.path.exists(journal) or read(journal).count(b"\n") < 2:
                time.sleep(.001)
                continue
            for child in [c for helper in children(process.pid) for c in children(helper)]:
                try:
                    os.kill(child, signal.SIGKILL)
                    n += 1
                except ProcessLookupError:
                    pass
        process.communicate(timeout=TIMEOUT_S)
        return n, process.returncode

    def test_a_decoder_that_is_killed_is_one_error_line(self):
        folder, video = self.path("in"), read("samples/video0002_256.mp4")
        os.makedirs(folder)
        for i in range(8):
            with open(os.path.join(folder, f"v{i}.mp4"), "wb") as f:
                f.write(video)
        for attempt in range(100):      # until a child is met before its work is done
            out = self.path(f"out{attempt}")
            n, code = self.kill_a_child(folder, out)
            self.assertIn(code, (0, 75))
            if code == 75:
                break
        failed = [r["error"] for r in lines(out, "captions.jsonl") if "error" in r]
        self.assertTrue(1 <= len(failed) <= n, failed)
        self.assertIn("decoding it failed", failed[0]["text"])
        self.caption(folder, "--out", out, "--num-frames", 2, "--retry")
        rows = lines(out, "captions.jsonl")
        self.assertEqual((len(rows), len({r["caption"] for r in rows})), (8, 1))


class Shards(CaptionCase):
    def test_four_shards_equal_one_run(self):
        folder, whole, out = self.fill(), self.path("whole"), self.path("out")
        self.caption(folder, "--out", whole, "--format", "jsonl", "--format", "coco")
        environments = [dict(SLURM_ARRAY_TASK_ID="1", SLURM_ARRAY_TASK_MIN="1", SLURM_ARRAY_TASK_MAX="4", SLURM_ARRAY_TASK_COUNT="4"),
                        dict(JOB_COMPLETION_INDEX="1"), dict(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="4"),
                        dict(PMI_RANK="3", PMI_SIZE="4")]
        for i, environment in enumerate(environments):
            extra = ["--shards", 4] if "JOB_COMPLETION_INDEX" in environment else []
            run = self.caption(folder, "--out", out, *extra, environment=environment)
            self.assertIn(f"saccade: shard {i} of 4 (", run.stderr)
            if i < 3:
                self.assert_refused(self.caption("merge", out, code=65), 65, "never begun, of 4: ")
        self.assertFalse(os.path.exists(os.path.join(out, "captions.jsonl")))
        self.caption("merge", out, "--format", "jsonl", "--format", "coco")
        for name in "captions.jsonl", "captions.json":
            self.assertEqual(read(out, name), read(whole, name))
        # a line lost, doubled or changed is found
        good = read(self.journal(out, 2, 4))
        parts = good.splitlines(keepends=True)
        self.assertGreater(len(parts), 1)
        for text, needle in [(b"".join(parts[:-1]), "no record yet"), (good + parts[-1], "a second record"),
                             (good.replace(b'"max_tokens":2', b'"max_tokens":3'), "another job than shard 0: settings.sampling")]:
            with open(self.journal(out, 2, 4), "wb") as f:
                f.write(text)
            run = saccade("caption", "merge", out, "--out", self.path("elsewhere"))
            self.assertIn(run.returncode, (65, 78))
            self.assertIn(needle, run.stderr)
            self.assertFalse(os.path.exists(self.path("elsewhere")))
        self.assertIn("holds a job of 4 shards", self.caption(folder, "--out", out, code=78).stderr)


class CommandLine(CaptionCase):
    def test_refusals(self):
        folder, out = self.fill(n=1), self.path("out")
        for arguments, code, needle in [
            ([], 64, "no input"), ([folder], 64, "--out DIR"), ([folder, "--out", out, "--format", "xml"], 64, "--format"),
            ([folder, "--out", out, "--shard", "2/2"], 64, "--shard"), ([folder, "--out", out, "--shard", "x"], 64, "I/N"),
            ([folder, "--out", out, "--shards", 3], 64, "which of them"), ([self.path("no"), "--out", out], 66, "no"),
            ([folder, folder, "--out", out], 64, "one folder"), (["README.md", "--out", out], 64, ".jsonl"),
            ([PICTURES[0], "README.md", "--out", out], 64, "one folder"), (["x.parquet", "--out", out], 69, "saccade-parquet"),
            ([folder, "--column", "x", "--out", out], 64, "only a CSV file"),
            ([folder + "/*.gif", "--out", out], 66, "no file has such a name"),
            ([folder + "/no.png", folder + "/no.jpg", "--out", out], 66, "nor any other"),
            ([folder, "--out", self.path("file", "x") + "/b"], 74, "file/b"), (["merge"], 64, "one folder"), (["merge", folder], 66, "no shards"),
            ([folder, "--out", out, "--prefill", "nothing"], 64, "nothing"),
            ([self.path("e.jsonl", '{"custom_id": "a", "body": {}}'), "--out", out, "--format", "text"], 64, "custom_id"),
        ]:
            self.assert_refused(self.caption(*arguments, code=code), code, needle)

    def test_settings_from_a_file(self):
        folder, out = self.fill(n=1), self.path("out")
        config = self.path("run.yaml", f"eval: {{out: {out}}}\ncaption: {{ask: What color is the background?, batch: 1}}\n")
        self.caption(folder, "--config", config)
        self.assertEqual(lines(out, "captions.jsonl")[0]["caption"], "gray")


if __name__ == "__main__":
    main()
