"""On a terminal: the chat, progress, and Ctrl-C. And no progress where there is no terminal."""
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
        self.assertEqual(messages[0]["content"], [{"type": "image", "file": row["file"]},
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
        chat.type("/image " + self.path("bad.png", "no picture") + "\n")
        at = chat.wait_for("[1 attached] > ", at)
        chat.type("What is this?\n")
        at = chat.wait_for("[1 attached] > ", chat.wait_for("saccade: ", at))  # a mistake costs nothing that was attached
        chat.type("/detach\n")
        at = chat.wait_for("\n> ", at)
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

    def test_ctrl_c_ends_an_answer_and_not_the_chat(self):
        row = sample(video=False)
        chat = Terminal("ask", "--threads", "1", "--frames", self.frames())
        at = chat.wait_for("[1 attached] > ")
        chat.type("What is first?\n")
        at = chat.wait_for("%", at)
        chat.type("\x03")
        at = chat.wait_for("[1 attached] > ", chat.wait_for("stopped before an answer", at))  # and keeps the video
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
