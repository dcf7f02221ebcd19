"""On a terminal: the chat, progress, and Ctrl-C. And no progress where there is no terminal."""
import hashlib
import json
import os
import re
import signal
import subprocess
import time

from cli import SACCADE, TIMEOUT_S, Case, Terminal, main, sample, write_png

PROMPT = "> "


def wait_until_interruptible(pid):
    """The command has taken SIGINT over: a thread of its own waits for it, so it is blocked in the others."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            blocked = int(re.search(r"SigBlk:\s+([0-9a-f]+)", f.read()).group(1), 16)
        if blocked >> (signal.SIGINT - 1) & 1:
            return
        time.sleep(0.002)
    raise AssertionError("SIGINT is not blocked")


class Chat(Case):
    def test_questions_pictures_and_commands(self):
        row = sample(video=False)
        chat = Terminal("ask")
        at = chat.wait_for(PROMPT)
        chat.type("/help\n")
        at = chat.wait_for(PROMPT, chat.wait_for("/reset", at))
        chat.type("/image " + row["file"] + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        chat.type(row["question"] + "\n")
        at = chat.wait_for("\r\n", at)  # of the question's echo; on a slow machine progress comes before the answer
        at = chat.wait_for(row["answer"], at)
        at = chat.wait_for(PROMPT, at)
        chat.type(row["question"] + "\n")  # the picture is still part of the conversation
        at = chat.wait_for(PROMPT, chat.wait_for("reused", at))
        saved = self.path("chat.json")
        os.symlink("behind.json", saved)
        chat.type(f"/save {saved}\n")
        at = chat.wait_for(PROMPT, at)
        chat.type("/quit\n")
        self.assertEqual(chat.exit_code(), 0)
        with open(saved, encoding="utf-8") as f:
            messages = json.load(f)
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
        with open(row["file"], "rb") as f:
            sha256 = hashlib.sha256(f.read()).hexdigest()
        self.assertEqual(messages[0]["content"], [{"type": "image", "file": os.path.abspath(row["file"]), "sha256": sha256},
                                                  {"type": "text", "text": row["question"]}])
        self.assertEqual(messages[1]["content"], [{"type": "text", "text": row["answer"]}])
        self.assertEqual((sorted(os.listdir(self.folder)), os.path.islink(saved)), (["behind.json", "chat.json"], True))

    def test_mistakes_do_not_end_it(self):
        row = sample(video=False)
        chat = Terminal("ask", environment={"HOME": self.folder})
        at = chat.wait_for(PROMPT)
        for line, needle in [
            ("/image no.png", "saccade: no.png: No such file"),
            ("/image", "saccade: expected the name of a file"),
            ("/save", "saccade: /save needs a file"),
            ("/save /no/folder/x.json", "cannot be written"),
            ("/what", "saccade: unknown command /what"),
            ("", ""),
        ]:
            chat.type(line + "\n")
            at = chat.wait_for(PROMPT, chat.wait_for(needle, at))
        chat.type("/image " + row["file"] + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        for refused, needle in [("/image README.md", "README.md: not a picture"), ("/video README.md", "README.md: "),
                                ("/image " + sample(video=True)["file"], "a video: /video shows it"),
                                ("/imge x", "did you mean /image?"), ("/retry", "no question was asked yet")]:
            chat.type(refused + "\n")  # at once, and what was attached stays
            at = chat.wait_for("[1 attached] > ", chat.wait_for(needle, chat.wait_for("saccade: ", at)))
        chat.type("/detach\n")
        at = chat.wait_for("\n> ", at)
        with open(row["file"], "rb") as f:
            lost = self.path("lost.png", f.read())
        chat.type("/image " + lost + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        os.rename(lost, lost + ".away")
        chat.type(row["question"] + "\n")  # the question is kept as well
        at = chat.wait_for("[1 attached] > ", chat.wait_for("/retry asks it again", chat.wait_for("saccade: ", at)))
        os.rename(lost + ".away", lost)
        chat.type("/retry\n")
        at = chat.wait_for("\n> ", chat.wait_for(row["answer"], at))
        with open(row["file"], "rb") as f:
            self.path("my pic's.png", f.read())
        for typed in ['"%s/my pic\'s.png"', "%s/my\\ pic\\'s.png"]:
            chat.type("/image " + typed % self.folder + "\n")
            at = chat.wait_for("[1 attached] > ", at)
            chat.type("/detach\n")
            at = chat.wait_for("\n> ", at)
        chat.type("/image ~/my\\ pic\\'s.png\n")
        at = chat.wait_for("[1 attached] > ", at)
        chat.type(row["question"] + "\n")
        at = chat.wait_for(PROMPT, chat.wait_for(row["answer"], at))
        chat.type("\x04")
        self.assertEqual(chat.exit_code(), 0)

    def test_a_picture_of_the_command_line_and_reset(self):
        row = sample(video=False)
        chat = Terminal("ask", "--image", row["file"])
        at = chat.wait_for("[1 attached] > ")
        chat.type("/reset\n")
        at = chat.wait_for("\n> ", at)
        chat.type("/image " + row["file"] + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        chat.type(row["question"] + "\n")
        at = chat.wait_for(PROMPT, chat.wait_for(row["answer"], at))
        chat.type("\x03")
        self.assertEqual(chat.exit_code(), 130)


class Editing(Case):
    """Every key of the line editor, as bytes that a terminal sends; what was typed is read from /save."""

    def setUp(self):
        super().setUp()
        self.environment = {"XDG_STATE_HOME": self.folder, "HOME": self.folder, "LC_ALL": "C"}

    def open(self, **more):
        chat = Terminal("ask", "-n", "1", environment={**self.environment, **more})
        return chat, chat.wait_for(PROMPT)

    def asked(self, chat, at, rows):
        """What reached the model of keys that end in Enter."""
        saved = self.path("saved.json")
        for keys in rows:
            chat.type(keys)
            at = chat.wait_for(" answer token", at)  # of the summary
            at = chat.wait_for("\n> ", at)
        chat.type(f" /save {saved}\r")
        chat.wait_for("\n> ", at)
        with open(saved, encoding="utf-8") as f:
            messages = json.load(f)
        return [m["content"][0]["text"] for m in messages if m["role"] == "user"]

    def needs_editor(self, chat):
        if b"\033[?2004h" not in chat.raw:
            chat.type("\x04")
            chat.exit_code()
            self.skipTest("this build has no line editor")

    def test_keys(self):
        rows = [  # keys, what is sent
            ("abc\033[D\033[Dx\r", "axbc"), ("abc\033[D\033[D\033[Cx\r", "abxc"),
            ("abc\033[Hx\r", "xabc"), ("abc\033OHx\033OFy\r", "xabcy"), ("abc\033[1~x\033[4~y\r", "xabcy"),
            ("abc\001x\005y\r", "xabcy"), ("abc\033[D\033[3~x\r", "abx"), ("abc\177d\r", "abd"),
            ("one two\033[1;5Dx\r", "one xtwo"), ("one two\027x\r", "one x"), ("abc\025d\r", "d"),
            ("h\u00e9llo \u4f60\u597d\177!\r", "h\u00e9llo \u4f60!"), ("\u4f60\u597d\033[Dx\r", "\u4f60x\u597d"),
            ("\033[A\r", "\u4f60x\u597d"), ("\033[A\033[A\033[B\r", "\u4f60x\u597d"), ("\022one x\033\r", "one x"),
            ("a\\\rb\r", "a\nb"), ('"""a\r\rb"""\r', "a\n\nb"), ('"""\ra\r"""\r', "a"),
            ("\033[200~two\rlines\tand \u4f60\r\033[201~!\r", "two\nlines\tand \u4f60!"),
            ("\033[A\r", "two\nlines\tand \u4f60!"), (" secret\r", "secret"), ("abc\003def\r", "def"),
        ]
        chat, at = self.open()
        self.needs_editor(chat)
        self.assertEqual(self.asked(chat, at, [keys for keys, _ in rows]), [text for _, text in rows])
        self.assertIn(b"\033[?2004l", chat.raw)
        chat.type("\x04")
        self.assertEqual(chat.exit_code(), 0)
        kept = self.path("saccade/history")
        self.assertEqual(os.stat(kept).st_mode & 0o777, 0o600)
        with open(kept, encoding="utf-8") as f:
            lines = f.read().split("\n")
        self.assertIn("two\\nlines\tand \u4f60!", lines)
        self.assertNotIn(" secret", lines)
        chat, at = self.open()  # another chat has the history
        self.assertEqual(self.asked(chat, at, ["\033[A\r", "\033[A\r"]), ["def", "def"])
        chat.type("\003")
        self.assertEqual(chat.exit_code(), 130)

    def test_tab(self):
        os.mkdir(self.path("my pics"))
        write_png(self.path("my pics/one picture.png"))
        write_png(self.path("my pics/other.png"))
        chat, at = self.open()
        self.needs_editor(chat)
        for keys, seen in [
            ("/im\t", "age "), ("~/my\t", "\\ pics/"), ("on\t", "e\\ picture.png"), ("\r", "[1 attached] > "),
            ("/image \"" + self.folder + "/my\t", "pics/"), ("o\t\t", "one picture.png  other.png"),
            ("t\t", 'her.png"'), ("\r", "[2 attached] > "),
        ]:
            chat.type(keys)
            at = chat.wait_for(seen, at)
        chat.type("\x04")
        self.assertEqual(chat.exit_code(), 0)

    def test_a_dumb_terminal(self):
        chat, at = self.open(TERM="dumb")
        chat.type('"""a\n')
        at = chat.wait_for("... ", at)
        chat.type('b"""\n')
        at = chat.wait_for(PROMPT, chat.wait_for("\n", at))
        saved = self.path("saved.json")
        chat.type(f"/save {saved}\n/quit\n")
        self.assertEqual(chat.exit_code(), 0)
        self.assertNotIn(b"\033", chat.raw)
        with open(saved, encoding="utf-8") as f:
            self.assertEqual(json.load(f)[0]["content"][0]["text"], "a\nb")

    def test_a_history_that_cannot_be_kept(self):
        chat, _ = self.open(XDG_STATE_HOME=self.path("file", "") + "/x")
        self.assertIn("not kept for the next chat", chat.seen)
        chat.type("\x04")
        self.assertEqual(chat.exit_code(), 0)


class LongWork(Case):
    """Enough frames, on one thread, that the work is seen on any machine: a percentage appears after 0.3 s of a stage."""

    def frames(self, n=240):
        lines = []
        for i in range(n):
            lines.append(os.path.basename(write_png(self.path(f"{i}.png"), colour=(i, 255 - i, 80))))
        return self.path("frames.txt", "\n".join(lines))

    def test_progress_is_one_line_that_goes_away(self):
        run = Terminal("ask", "--threads", "1", "--frames", self.frames(100), "What is first?")
        self.assertEqual(run.exit_code(), 0)
        self.assertRegex(run.seen, r"\r(load|media|vision|prefill) +\[#*\.*\] +\d+%")
        last = run.seen.rindex("%")
        self.assertIn("\r\033[K", run.seen[last:])
        self.assertNotIn("\n", run.seen[:last])

    def test_quiet_and_colourless_terminals(self):
        frames = self.frames(24)
        run = Terminal("ask", "-q", "--frames", frames, "What is first?")
        self.assertEqual(run.exit_code(), 0)
        self.assertNotIn("%", run.seen)
        self.assertNotIn("\033", run.seen)
        run = Terminal("ask", "--frames", frames, "What is first?", environment={"TERM": "dumb"})
        self.assertEqual(run.exit_code(), 0)
        self.assertNotIn("\033", run.seen)
        run = Terminal("ask", "--frames", frames, "What is first?", environment={"NO_COLOR": "1"})
        self.assertEqual(run.exit_code(), 0)
        self.assertNotIn("\033[2m", run.seen)
        self.assertIn("24 of 24 frames", run.seen)

    def test_ctrl_c_ends_a_question(self):
        run = Terminal("ask", "--threads", "1", "--frames", self.frames(), "What is first?")
        run.wait_for("%")
        run.type("\x03")
        self.assertEqual(run.exit_code(), 130)
        self.assertIn("saccade: ", run.seen)

    def test_a_layer_that_takes_seconds(self):
        """Progress within the first of nine layers; Ctrl-C during attention of 12,000 tokens is answered before that is done."""
        for wait_s in 0.5, 0.8, 0.3, 1.2, 2:  # until it comes while a piece of more than 0.2 s is under way
            run = Terminal("ask", "--threads", "1", "--ctx", "32768", "a " * 12000)
            run.wait_for("prefill")
            end = time.monotonic() + wait_s
            while run.read(max(0.0, end - time.monotonic())):
                pass
            self.assertRegex(run.seen, r"prefill  \[#*\.*\] +([1-9]|10)%")
            run.type("\x03")
            while "Ctrl-C again ends at once" not in run.seen and run.read(TIMEOUT_S):
                pass
            told = "Ctrl-C again ends at once" in run.seen
            if told:
                run.type("\x03")
            self.assertEqual(run.exit_code(), 130)
            self.assertIn("saccade: cancelled", run.seen)
            if told:
                return
        self.fail("Ctrl-C was not answered")

    def test_ctrl_c_ends_an_answer_and_not_the_chat(self):
        row = sample(video=False)
        chat = Terminal("ask", "--threads", "1", "--frames", self.frames())
        at = chat.wait_for("[1 attached] > ")
        chat.type("What is first?\n")
        at = chat.wait_for("%", at)
        chat.type("\x03")
        at = chat.wait_for("stopped before an answer", at)
        at = chat.wait_for("[1 attached] > ", chat.wait_for("/retry asks it again", at))  # and keeps the video
        chat.type("/detach\n")
        at = chat.wait_for("\n> ", at)
        chat.type("/image " + row["file"] + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        chat.type(row["question"] + "\n")
        at = chat.wait_for(PROMPT, chat.wait_for(row["answer"], at))
        chat.type("/quit\n")
        self.assertEqual(chat.exit_code(), 0)

    def test_a_signal_without_a_terminal(self):
        run = subprocess.Popen([SACCADE, "ask", "--json", "--threads", "1", "--frames", self.frames(), "What is first?"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        wait_until_interruptible(run.pid)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate()
        self.assertEqual((run.returncode, out), (130, ""), err)
        self.assertRegex(err, r"\Asaccade: [^\n]*cancelled[^\n]*\n\Z")


if __name__ == "__main__":
    main()
