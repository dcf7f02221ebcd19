"""Bad input gets one line that says what, where and what to do, an exit code of sysexits.h, and no output."""
import json
import os
import re
import shutil
import signal
import subprocess

from cli import SACCADE, Case, main, saccade, sample, write_png


class Usage(Case):
    def test_wrong_command_lines(self):
        for arguments, needle in [
            ([], "see 'saccade --help'"),
            (["aks"], "unknown command 'aks'"),
            (["help", "aks"], "unknown command 'aks'; did you mean ask? See"),
            (["--vers"], "did you mean --version?"),
            (["ask", "--zzz", "q"], "unknown option '--zzz'; see"),
            (["ask", "--imgae", "x", "q"], "unknown option '--imgae'; did you mean --image? See 'saccade ask --help'"),
            (["ask", "-z", "q"], "unknown option '-z'; see 'saccade ask --help'"),
            (["ask", "--tensors", "q"], "unknown option '--tensors'"),
            (["ask", "q", "--image"], "--image needs a value: FILE"),
            (["ask", "q", "-n"], "--max-tokens needs a value"),
            (["ask", "--json=1", "q"], "--json takes no value"),
            (["ask", "--max-tokens", "many", "q"], "--max-tokens: expected a whole number, found 'many'"),
            (["ask", "--temperature", "-1", "q"], "--temperature: expected a number from 0 to 100"),
            (["ask", "--temperature", "nan", "q"], "--temperature: expected a number"),
            (["ask", "--fps", "0", "q"], "--fps: expected a number from 0.001"),
            (["ask", "--fps", "1000000", "q"], "--fps: expected a number"),
            (["ask", "--num-frames", "0", "q"], "--num-frames: expected a number from 1"),
            (["ask", "--seed", "-1", "q"], "--seed: expected a whole number"),
            (["ask", "--stop", "", "q"], "--stop: expected a text"),
            (["ask", "--image", "", "q"], "--image: expected the name of a file"),
            (["caption", "x", "--out", ""], "--out: expected the name of a folder, found nothing"),
            (["eval", "x", "--videos="], "--videos: expected the name of a folder, found nothing"),
            (["inspect", "--attention", "", "q"], "--attention: expected the name of a file, found nothing"),
            (["ask"], "no question"),
            (["ask", "  "], "no question"),
            (["ask", "a.jpg", "what?"], "one question is expected, found 'a.jpg' and 'what?'"),
            (["ask", "--kv", "f12", "q"], "f12"),
            (["ask", "--prefill", "magic", "q"], 'prefill policy "magic" is not known: there are dense'),
            (["ask", "--decode", "quset:page=8", "q"], 'decode policy "quset" is not known; did you mean quest?'),
            (["bench", "--kv", "kiwi"], 'KV format "kiwi" is not known; did you mean kivi?'),
            (["ask", "--chat", "magic", "q"], "magic"),
            (["inspect", "a", "b"], "one model is expected"),
            (["bench", "q"], "'q' is not expected"),
        ]:
            with self.subTest(arguments):
                self.assert_refused(saccade(*arguments), 64, needle)

    def test_settings_files(self):
        for text, where in [
            ("threads: 1\nsampling:\n  tempratur: 1\n", ":3: unknown key 'tempratur' in sampling"),
            ("threads: two\n", ":1: threads: expected a whole number"),
            ("session: {kv: {a: {b: {c: d}}}}\n", ":1: kv: expected a text, found a mapping"),
            ("[" * 5000, ":1: "),
            ("# " + "x" * 70000, "larger than 65536 bytes"),
        ]:
            with self.subTest(text[:40]):
                path = self.path("run.yaml", text)
                self.assert_refused(saccade("ask", "--config", path, "q"), 78, path, where)
        self.assert_refused(saccade("ask", "--config", self.path("no.yaml"), "q"), 66, "No such file")


class Files(Case):
    def ask_image(self, path):
        return saccade("ask", "--image", path, "What is this?")

    def test_missing_files(self):
        missing = self.path("no.png")
        self.assert_refused(self.ask_image(missing), 66, missing)
        self.assert_refused(saccade("ask", "--video", self.path("no.mp4"), "q"), 66, "no.mp4")
        self.assert_refused(saccade("ask", "--frames", self.path("no.txt"), "q"), 66, "no.txt")
        self.assert_refused(saccade("ask", "-m", self.path("nomodel"), "q"), 66, "nomodel")

    def test_pictures_that_are_none(self):
        good = write_png(self.path("good.png"))
        with open(good, "rb") as f:
            data = f.read()
        for name, content in [
            ("empty.png", b""),
            ("cut.png", data[:len(data) // 2]),
            ("text.jpg", "not a picture\n"),
            ("zeros.png", bytes(4096)),
        ]:
            with self.subTest(name):
                self.assert_refused(self.ask_image(self.path(name, content)), 65, name)
        formats = re.search("^pictures +(.*)$", saccade("--version").stdout, re.M)[1]
        self.assert_refused(self.ask_image(self.path("text.jpg")), 65, "text.jpg: not a picture: none of " + formats)
        self.assert_refused(self.ask_image(write_png(self.path("huge.png"), claim=(100000, 100000))), 65, "huge.png")

    def test_a_folder_is_no_picture(self):
        self.assert_refused(self.ask_image(self.folder), 65, "a folder: --frames shows the pictures in it as a video")

    def test_a_video_is_no_picture(self):
        self.assert_refused(self.ask_image("samples/video0000_16.mp4"), 69, "video0000_16.mp4: MP4 video, no picture: give it as a video (--video)")

    def test_a_file_that_cannot_be_written_is_told_first(self):
        """Not after the work whose result goes there."""
        picture = "--image", "samples/picture0000.png", "What is this?"
        for name, says in ("none/a.svg", "none/a.svg.part: cannot be written: No such file"), (".", "cannot be written: Is a directory"):
            path = self.path(name)
            self.assert_refused(saccade("inspect", "--attention", path, *picture), 74, says)
            self.assert_refused(saccade("calibrate", "samples/drawn/set.json", path), 74, says)

    def test_videos_that_are_none(self):
        for name, content in [("empty.mp4", b""), ("text.mp4", "not a video\n" * 100)]:
            with self.subTest(name):
                self.assert_refused(saccade("ask", "--video", self.path(name, content), "q"), 65, name)
        with open(sample(video=True)["file"], "rb") as f:
            data = f.read()
        cut = self.path("cut.mp4", data[:200])
        self.assert_refused(saccade("ask", "--video", cut, "q"), 65, "cut.mp4")

    def test_lists_of_frames(self):
        write_png(self.path("a.png"))
        for text, needle in [
            ("", "no frames"),
            ("# nothing\n", "no frames"),
            ("a.png 1\na.png\n", ":2: some lines have a time"),
            ("a\0.png 1\n", "not a list of frames"),
            ("missing.png 1\n", "list.txt:1: "),
            ("a.png 1\n\nmissing.png 2\n", "list.txt:3: "),
            ("no list at all, missing\n", "list.txt:1: "),
            ("a.png 1\na.png 0\n", "list.txt:2: 0 s does not come after the 1 s"),
            ("a.png 1\na.png 1\n", "list.txt:2: 1 s does not come after the 1 s"),
            ("a.png nan\n", "list.txt:1: the time is nan"),
            ("a.png 1\na.png inf\n", "list.txt:2: the time is inf"),
        ]:
            with self.subTest(text):
                run = saccade("ask", "--frames", self.path("list.txt", text), "q")
                self.assert_refused(run, 66 if "missing" in text else 65, needle)
        os.mkdir(self.path("none"))
        self.assert_refused(saccade("ask", "--frames", self.path("none"), "q"), 65, "no pictures")

    def test_a_pipe_is_no_file(self):
        """The command must not wait for somebody to write into it."""
        pipe = self.path("pipe.jsonl")
        os.mkfifo(pipe)
        for arguments in [("bench", "--image", pipe), ("bench", "--video", pipe), ("caption", pipe, "--out", self.path("out"))]:
            with self.subTest(arguments):
                self.assert_refused(saccade(*arguments), 65, "pipe.jsonl: not a regular file")

    def test_settings_and_lists_from_a_pipe(self):
        """What a shell's <(...) hands over is read as a file is; a folder is not."""
        picture = os.path.abspath("samples/picture0000.png")
        for option, text in [("--config", "threads: 1\n"), ("--frames", picture + "\n")]:
            with self.subTest(option):
                read, write = os.pipe()
                os.write(write, text.encode())
                os.close(write)
                media = [] if option == "--frames" else ["--image", picture]
                run = saccade("ask", option, f"/dev/fd/{read}", *media, "What is this?", pass_fds=(read,))
                os.close(read)
                self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_refused(saccade("ask", "--config", self.folder, "q"), 65, "not a regular file, a pipe or a device")

    def test_models_that_are_none(self):
        os.mkdir(self.path("model"))
        run = saccade("ask", "-m", self.path("model"), "q")
        self.assertIn(run.returncode, (65, 66))
        self.assert_refused(run, run.returncode, "model")
        for name in "mmproj-f16.gguf", "b.gguf", "a.gguf":
            self.path("model/" + name, "")
        self.assert_refused(saccade("ask", "-m", self.path("model"), "q"), 66, "model: give the file in it, a.gguf")
        self.assert_refused(saccade("inspect", self.path("x.gguf", b"GGUF\3\0\0\0" + b"\xff" * 64)), 65, "x.gguf")

    def test_a_placeholder_that_is_another_token(self):
        model, row = self.path("model"), sample(video=False)
        shutil.copytree("models/demo", model)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        self.path("model/config.json", json.dumps(dict(config, image_token_index=3)))
        run = saccade("ask", "-m", model, "--image", row["file"], row["question"])
        self.assert_refused(run, 64, "chat_template.jinja", "2 placeholders", "image_token_index")

    def test_a_terminal_never_sees_control_codes_of_a_name(self):
        run = saccade("ask", "--image", self.path("a\033[2Jb.png"), "q")
        self.assert_refused(run, 66, "a?[2Jb.png")


class Limits(Case):
    def test_a_prompt_longer_than_the_context(self):
        run = saccade("ask", "--ctx", "64", "-", input="word " * 500)
        self.assert_refused(run, 65, "64")

    def test_a_question_that_is_no_text(self):
        self.assert_refused(saccade("ask", "-", input="a\0b"), 65, "standard input")

    def test_a_context_of_no_use(self):
        self.assertNotEqual(saccade("ask", "--ctx", "2147483647", "q").returncode, 0)


class Output(Case):
    def setUp(self):
        super().setUp()
        row = sample(video=False)
        self.arguments = ["ask", "--image", row["file"], row["question"]]

    def test_a_full_disk(self):
        for more in [], ["--json"]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                run = saccade(*self.arguments, *more, stdout=full)
            self.assert_refused(run, 74, "standard output", "No space left")
        for arguments in ["--help"], ["--version"], ["ask", "--help"], ["inspect"], ["inspect", "--json"]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assert_refused(saccade(*arguments, stdout=full), 74, "standard output")

    def test_a_closed_pipe(self):
        read, write = os.pipe()
        os.close(read)
        run = saccade(*self.arguments, stdout=write)
        os.close(write)
        self.assertEqual((run.returncode, run.stderr), (-signal.SIGPIPE, ""))  # as other commands end: quietly
        read, write = os.pipe()
        os.close(read)
        run = saccade("help", "ask", stdout=write)  # more than a buffer of it
        os.close(write)
        self.assertEqual((run.returncode, run.stderr), (-signal.SIGPIPE, ""))

    def test_closed_descriptors(self):
        line = subprocess.list2cmdline([SACCADE])
        for closed, code in [(">&-", 74), ("<&-", 0), ("2>&-", 0), (">&- 2>&- <&-", 74)]:
            with self.subTest(closed):
                run = subprocess.run(["sh", "-c", f'"$0" "$@" {closed}', SACCADE, *self.arguments],
                                     stdin=subprocess.DEVNULL, capture_output=True, text=True)
                self.assertEqual(run.returncode, code, (line, run.stderr))


if __name__ == "__main__":
    main()
