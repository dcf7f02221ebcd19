"""The chat as a person sees it: every key with what the screen shows then, and pictures on it."""
import base64
import glob
import os
import sys
import time

from cli import ROOT, TIMEOUT_S, Case, Terminal, main, sample, write_png
from screen import Screen

for packages in glob.glob("build/venv/lib/python*/site-packages"):
    sys.path.append(os.path.join(ROOT, packages))
try:
    import pyte
except ImportError:
    pyte = None

UP, DOWN, RIGHT, LEFT, HOME, END, DELETE = "\033[A", "\033[B", "\033[C", "\033[D", "\033[H", "\033[F", "\033[3~"


def paste(text):
    return f"\033[200~{text}\033[201~"


class Chat(Terminal):
    """With a screen of its own. What is typed goes in key by key."""

    def __init__(self, case, *arguments, rows=24, columns=80, **environment):
        self.screen, self.rest, self.n_fed = Screen(rows, columns), "", 0
        super().__init__("ask", *arguments, size=(rows, columns),
                         environment={"HOME": case.folder, "XDG_STATE_HOME": case.folder, "LC_ALL": "C", **environment})
        self.case = case
        self.until(lambda s: s.line().endswith(">"), "a prompt")
        if b"\033[?2004h" not in self.raw:
            self.type("\x04")
            self.exit_code()
            case.skipTest("this build has no line editor")

    def read(self, seconds):
        more = super().read(seconds)
        text = self.raw.decode("utf-8", "ignore")  # a character that is cut is not there yet
        self.rest = self.screen.feed(self.rest + text[self.n_fed:])
        self.n_fed = len(text)
        return more

    def until(self, is_so, what, seconds=TIMEOUT_S):
        end = time.monotonic() + seconds
        while not is_so(self.screen):
            if not self.read(max(0.0, end - time.monotonic())):
                raise AssertionError(f"{what} did not appear; the screen:\n" + "\n".join(self.screen.lines()))

    def press(self, keys, line, x=None, prompt="> "):
        """After the keys the line of the cursor is `line`, and the cursor in column x behind the prompt (at the end without)."""
        self.type(keys)
        width = sum(2 if c > "\u2e80" else 1 for c in line) if x is None else x
        self.until(lambda s: (s.line(), s.x) == ((prompt + line).rstrip(), len(prompt) + width), f"{keys!r}: {line!r}, column {width}")

    def ask(self, keys, *seen, prompt="> "):
        """Keys that end in Enter; what appears of them, and the prompt."""
        at = len(self.seen)
        self.type(keys)
        for text in seen:
            at = self.wait_for(text, at)
        self.wait_for("\n" + prompt, at - 1)

    def leave(self):
        self.type("\x05\x15\x04")
        self.case.assertEqual(self.exit_code(), 0)


class Keys(Case):
    def test_moving_and_deleting(self):
        chat = Chat(self)
        for keys, line, x in [
            ("abc", "abc", 3), (LEFT, "abc", 2), ("x", "abxc", 3), (RIGHT, "abxc", 4), (HOME, "abxc", 0), ("y", "yabxc", 1), (END, "yabxc", 5),
            ("\001", "yabxc", 0), (DELETE, "abxc", 0), ("\005", "abxc", 4), ("\x7f", "abx", 3), ("\002\002", "abx", 1), ("\006", "abx", 2),
            ("\013", "ab", 2), ("\031", "abx", 3), ("\025", "", 0), ("\031", "abx", 3), ("\025", "", 0),
            ("one two three", "one two three", 13), ("\027", "one two ", 8), ("\031", "one two three", 13), ("\033b", "one two three", 8),
            ("\033[1;5D", "one two three", 4), ("\033[1;5C", "one two three", 7), ("\025", " three", 0), ("\013", "", 0),
            ("\033OH", "", 0), ("a\033OFb", "ab", 2), ("\024", "ba", 2), ("\025", "", 0),
        ]:
            chat.press(keys, line, x)
        chat.leave()

    def test_wide_characters(self):
        chat = Chat(self)
        for keys, line, x in [
            ("h\u00e9llo \u4f60\u597d", "h\u00e9llo \u4f60\u597d", 10), ("\x7f", "h\u00e9llo \u4f60", 8), (LEFT, "h\u00e9llo \u4f60", 6), ("\uac00", "h\u00e9llo \uac00\u4f60", 8),
            (HOME + DELETE, "\u00e9llo \uac00\u4f60", 0), (END, "\u00e9llo \uac00\u4f60", 9), ("\x7f\x7f\x7f", "\u00e9llo", 4), ("\x7f\x7f\x7f\x7f", "", 0),
            ("\U0001f642!", "\U0001f642!", 3), ("\x7f\x7f", "", 0),
        ]:
            chat.press(keys, line, x)
        chat.leave()

    def test_a_line_longer_than_the_window(self):
        chat = Chat(self, columns=30)
        text = "".join(chr(97 + i % 26) for i in range(70))
        chat.type(text)
        chat.until(lambda s: [line for line in s.lines() if line][-3:] == ["> " + text[:28], text[28:58], text[58:]], "three rows")
        chat.type(HOME + "X")
        chat.until(lambda s: [line for line in s.lines() if line][-3:] == ["> X" + text[:27], text[27:57], text[57:]], "X in front")
        chat.type("\013" + "\u4f60" * 20)
        chat.until(lambda s: [line for line in s.lines() if line][-2:] == ["> X" + "\u4f60" * 13, "\u4f60" * 7], "wide characters")
        chat.type("\x7f" * 8)
        chat.until(lambda s: [line for line in s.lines() if line][-1] == "> X" + "\u4f60" * 12, "one row again")
        chat.leave()

    def test_history(self):
        chat = Chat(self, "-n", "1")
        for line in "first one", "second one", "/stats":
            chat.ask(line + "\r", "\n")
        for keys, line in [(UP, "/stats"), (UP, "second one"), (UP, "first one"), (DOWN, "second one"), (DOWN, "/stats"), (DOWN, ""),
                           ("\020", "/stats"), ("\016", ""), (UP + UP + "!", "second one!"), ("\025", "")]:
            chat.press(keys, line)
        chat.type("\022first")
        chat.until(lambda s: "first one" in "\n".join(s.lines()[s.y - 1:]), "a search")
        chat.type("\033")
        chat.until(lambda s: s.line() == "> first one", "what was found")
        chat.type("\003")  # drops the line, not the chat
        chat.until(lambda s: s.line() == ">", "an empty prompt")
        chat.leave()
        again = Chat(self)
        again.press(UP, "/stats")
        again.leave()

    def test_pasted_text(self):
        """Line ends within do not send it; control characters do not reach the terminal."""
        chat = Chat(self, "-n", "1")
        chat.press(paste("one two") + "!", "one two!")
        chat.press("\025", "")
        chat.press(paste("\033[31mred\007\x03\x7f\u009b"), "[31mred")
        chat.press("\025", "")
        chat.type(paste("two\rlines"))
        chat.until(lambda s: any("two" in line for line in s.lines()) and any("lines" in line for line in s.lines()), "both lines")
        chat.ask("\r", "answer token")
        chat.type('"""a\r')
        chat.until(lambda s: s.line() == "...", "another line")
        chat.ask('b"""\r', "answer token")
        chat.leave()

    def test_end(self):
        chat = Chat(self)
        chat.press("a", "a")
        chat.press("\x04", "a")  # Ctrl-D in a line that is not empty ends nothing
        chat.press("\025", "")
        chat.type("\x03")
        self.assertEqual(chat.exit_code(), 130)
        again = Chat(self)
        again.type("\x04")
        self.assertEqual(again.exit_code(), 0)

    def test_tab(self):
        os.mkdir(self.path("my pics"))
        write_png(self.path("my pics/one picture.png"))
        chat = Chat(self)
        for keys, line in [("/ret\t", "/retry "), ("\025/set temp\t", "/set temperature "), ("\025/methods dec\t", "/methods decode="),
                           ("\025~/my\t", "~/my\\ pics/"), ("\t", "~/my\\ pics/one\\ picture.png"), ("\025/load ~/m\t", "/load ~/my\\ pics/")]:
            chat.press(keys, line)
        chat.leave()

    def test_the_screen_is_that_of_pyte(self):
        if pyte is None:
            self.skipTest("pyte is not in build/venv")
        chat = Chat(self, columns=40)
        for keys in "abc \u4f60\u597d" * 9, HOME, "x" + DELETE + LEFT, END + "\x7f\x7f", "\027", "\025/he\t\r", UP + "\001/":
            chat.type(keys)
            while chat.read(0.3):
                pass
            other = pyte.Screen(40, 24)
            pyte.ByteStream(other).feed(chat.raw)
            self.assertEqual([line.rstrip() for line in other.display], chat.screen.lines(), keys)
            self.assertEqual((other.cursor.y, min(other.cursor.x, 39)), (chat.screen.y, chat.screen.x))
        chat.leave()


if __name__ == "__main__":
    main()
