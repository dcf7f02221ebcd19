"""The chat's attachments: paths in all spellings that terminals paste, errors that lose nothing, /save and /load, pictures that come
through pipes, and pictures on terminals of three protocols."""
import base64
import json
import os
import re
import subprocess
import unicodedata

from cli import Case, Terminal, main, sample, saccade, write_png
from test_chat_screen import UP, Chat, paste


class Paths(Case):
    NAMES = ["plain.png", "my pic.png", "it's.png", 'say "x".png', "back\\slash.png", "100%.png", "a%20b.png", "tab\there.png", "caf\u00e9.png",
             unicodedata.normalize("NFD", "\u00fcber nfd.png"), "\u4f60\u597d.png", "end .png", " front.png", "$HOME.png", "(1) [2] {3}&.png", "semi;colon.png"]

    def setUp(self):
        super().setUp()
        for name in self.NAMES:
            write_png(self.path(name))
        os.mkdir(self.path("sub dir"))
        write_png(self.path("sub dir/x.png"))

    def cases(self):
        """What is pasted, and how many files it attaches."""
        f = self.folder
        nfd = unicodedata.normalize("NFD", "caf\u00e9.png")
        return [
            (f"{f}/plain.png", 1), ("samples/picture0000.png", 1), (f"{f}/plain.png ", 1), (f"  {f}/plain.png", 1), (f"{f}/my pic.png", 1), (f"{f}/my\\ pic.png", 1),
            (f"'{f}/my pic.png'", 1), (f'"{f}/my pic.png"', 1), (f"'{f}/my pic.png' ", 1), (f"{f}/'my pic.png'", 1), (f"{f}/it\\'s.png", 1),
            (f"{f}/it's.png", 1), (f"'{f}/it'\\''s.png'", 1), (f'"{f}/it\'s.png"', 1), (f"$'{f}/it\\'s.png'", 1), (f"'{f}/say \"x\".png'", 1),
            (f'"{f}/say \\"x\\".png"', 1), (f"{f}/back\\\\slash.png", 1), (f"{f}/back\\slash.png", 1), ("~/plain.png", 1), ("~/my\\ pic.png", 1),
            ("~/my pic.png", 1), (f"file://{f}/plain.png", 1), (f"file://localhost{f}/my%20pic.png", 1), (f"file://{f}/100%25.png", 1),
            (f"file://{f}/caf%C3%A9.png", 1), (f"FILE://{f}/a%2520b.png", 1), (f"{f}/a%20b.png", 1), (f"{f}/my%20pic.png", 1), (f"{f}/caf\u00e9.png", 1),
            (f"{f}/{nfd}", 1), (f"{f}/\u00fcber nfd.png", 1), (f"'{f}/\u00fcber nfd.png'", 1), (f"{f}/\u4f60\u597d.png", 1),
            (f"file://{f}/%E4%BD%A0%E5%A5%BD.png", 1), (f"$'{f}/caf\\303\\251.png'", 1), (f"$'{f}/\\xe4\\xbd\\xa0\\u597d.png'".replace("\\u597d", "\\xe5\\xa5\\xbd"), 1),
            (f"{f}/end\\ .png", 1), (f"'{f}/ front.png'", 1), (f"{f}/\\$HOME.png", 1), (f"'{f}/$HOME.png'", 1),
            (f"{f}/\\(1\\)\\ \\[2\\]\\ \\{{3\\}}\\&.png", 1), (f"{f}/semi\\;colon.png", 1), (f"{f}/sub\\ dir/x.png", 1),
            (f"'{f}/my pic.png' {f}/plain.png", 2), (f"{f}/plain.png {f}/it\\'s.png ", 2), (f"'{f}/plain.png''{f}'", 0),
            (f"file://{f}/plain.png\rfile://{f}/my%20pic.png\r", 2), (f"{f}/plain.png\r{f}/\u4f60\u597d.png", 2), ("~/plain.png ~/my\\ pic.png '~/x'", 0),
        ]

    def test_pasted_alone_and_behind_a_command(self):
        chat = Chat(self, "-n", "1")
        for text, n in self.cases():
            with self.subTest(text):
                if n:
                    chat.ask(paste(text) + "\r", "\n", prompt=f"[{n} attached] > ")
                    chat.ask("/detach\r", "\n")
                    if text[:1] != " ":
                        chat.ask("/image " + paste(text) + "\r", "\n", prompt=f"[{n} attached] > ")
                        chat.ask("/detach\r", "\n")
        chat.ask("/image 'my pic.png\r", "No such file")
        chat.ask(paste(f"what is {self.folder}/plain.png ?") + "\r", "answer token")  # a question stays one
        chat.ask(paste(f"/tmp/nothing {self.folder}/plain.png") + "\r", "unknown command /tmp/nothing")
        chat.leave()

    def test_a_blank_at_the_end_of_a_name(self):
        write_png(self.path("blank "))
        write_png(self.path("blank.d "))
        chat = Chat(self)
        for typed in f"{self.folder}/blank\\ ", f"'{self.folder}/blank ' ", f"/image {self.folder}/blank\\ ", f"file://{self.folder}/blank%20":
            chat.ask(paste(typed) + "\r", "\n", prompt="[1 attached] > ")
            chat.ask("/detach\r", "\n")
        chat.leave()

    def test_folders_and_videos(self):
        chat = Chat(self)
        chat.ask(paste(os.path.abspath(sample(video=True)["file"])) + "\r", " frames, ", prompt="[1 attached] > ")
        chat.ask("/image " + self.path("sub\\ dir") + "\r", "/frames shows", prompt="[1 attached] > ")
        chat.ask(paste(self.path("sub dir")) + "\r", "\n", prompt="[2 attached] > ")
        chat.leave()

    def test_tab_at_a_path(self):
        chat = Chat(self)
        chat.press("~/caf\t", "~/caf\u00e9.png", 10)
        chat.press("\025~/sub\t\t", "~/sub\\ dir/x.png")
        chat.leave()


class Errors(Case):
    def test_nothing_is_lost(self):
        row = sample(video=False)
        good, lost = os.path.abspath(row["file"]), self.path("lost.png")
        write_png(lost)
        self.path("bad.png", "no picture")
        chat = Chat(self, "--ctx", "512")
        chat.ask(f"/image {good} {self.folder}/bad.png {self.folder}/none.png\r", "bad.png: not a picture", "none.png: No such file", prompt="[1 attached] > ")
        chat.ask("/image " + self.path("bad.png") + "\r", "bad.png: not a picture", prompt="[1 attached] > ")
        chat.ask("/video https://a.org/b.mp4\r", "addresses are not fetched", prompt="[1 attached] > ")
        chat.ask("/image " + lost + "\r", "\n", prompt="[2 attached] > ")
        os.remove(lost)
        chat.ask(row["question"] + "\r", "lost.png", "/retry asks it again", prompt="[2 attached] > ")
        write_png(lost)
        chat.ask("word " * 600 + "\r", "saccade: ", "/retry asks it again", prompt="[2 attached] > ")  # longer than the context
        for line, seen in [("/save /dev/full", "cannot be written: No space left"), ("/save /no/where.json", "cannot be written"), ("/save ~", "Is a directory"), ("/load /no/where.json", "No such file"),
                           (f"/save {good}", "is no saved conversation"), ("/load " + good, "saccade: "), ("/set temperature warm", "expected a number"),
                           ("/methods decode=quset", "did you mean quest?"), ("/methods decod=quest", "did you mean decode=?"), ("/set tempratur 1", "did you mean temperature?"),
                           ("/imgae x", "did you mean /image?"), ("/methods kv=mixed:7/3", "saccade: "), ("/set kv nosuch", "is not known"), ("/stats x", "takes nothing"), ("quit", "/quit ends the chat"), ("help", "/help lists"), ("/methods dence", "did you mean dense?"),
                           ("/set ctx 9999999999", "expected a number from")]:
            chat.ask(line + "\r", seen, prompt="[2 attached] > ")
        chat.ask("/retry\r", "/retry asks it again", prompt="[2 attached] > ")  # still too long
        chat.ask(row["question"] + "\r", "answer token")
        with open(good, "rb") as f:
            self.assertEqual(f.read(4), b"\x89PNG")
        chat.leave()

    def test_ctrl_c_in_decoding_keeps_what_came(self):
        row = sample(video=False)
        chat = Chat(self, "--threads", "1", "--image", row["file"])
        chat.ask("/set max-tokens 4000\r", "max-tokens: 4000", prompt="[1 attached] > ")
        chat.ask("/set min_new_tokens 4000\r", "\n", prompt="[1 attached] > ")
        at = len(chat.seen)
        chat.type("Describe the image.\r")
        at = chat.wait_for(row["answer"][:6], at)
        chat.type("\x03")
        chat.wait_for("\n> ", chat.wait_for("[stopped;", at))
        chat.ask("/undo\r", "taken back: Describe the image.", prompt="[1 attached] > ")
        chat.ask("/set min_new_tokens\r", "as it was", prompt="[1 attached] > ")
        chat.ask("/retry\r", row["answer"])
        chat.leave()


class Commands(Case):
    def test_undo_and_retry(self):
        row = sample(video=False)
        chat = Chat(self, "--image", row["file"])
        chat.ask("/undo\r", "nothing was asked yet", prompt="[1 attached] > ")
        chat.ask(row["question"] + "\r", row["answer"])
        chat.ask("/undo\r", row["question"], prompt="[1 attached] > ")
        chat.ask("/retry\r", row["answer"])
        chat.ask("/retry\r", row["answer"])  # of an answer, too
        chat.ask("/save " + self.path("a.json") + "\r", "2 messages")
        chat.ask("/undo\r", row["question"], prompt="[1 attached] > ")
        chat.ask("/save " + self.path("b.json") + "\r", "0 messages", prompt="[1 attached] > ")
        chat.leave()
        with open(self.path("a.json"), encoding="utf-8") as f:
            self.assertEqual([m["role"] for m in json.load(f)], ["user", "assistant"])

    def test_set_methods_and_stats(self):
        row = sample(video=False)
        chat = Chat(self, "--temperature", "0", "--image", row["file"])
        chat.ask("/set\r", "  max-tokens          512", "* temperature         0", prompt="[1 attached] > ")
        chat.ask("/stats\r", "none yet", prompt="[1 attached] > ")
        chat.ask("/set max-tokens 2\r", "[max-tokens: 2]", prompt="[1 attached] > ")
        chat.ask(row["question"] + "\r", "2 answer tokens at ", "cut at the limit")
        self.assertRegex(chat.seen, r"2 answer tokens at [0-9.]+/s, ")
        chat.ask("/set max-tokens\r", "as it was")
        chat.ask("/retry\r", row["answer"])
        chat.ask("/methods kv=mixed prefill=zipvl\r", "prefill zipvl", "kv mixed")
        chat.ask("/retry\r", row["answer"])
        chat.ask("/methods\r", "zipvl:", "mixed:", "There are", "quest", "kivi")
        chat.ask("/methods dense\r", "prefill dense")
        chat.ask("/stats\r", "context", " of ", "tokens/s", "answers")
        chat.ask("/set stop diamond\r", "[stop: diamond]")
        chat.ask("/retry\r", row["answer"].split("diamond")[0].strip())
        chat.ask("/set --stop=nothing\r", "[stop: nothing]")
        chat.ask("/retry\r", row["answer"])
        chat.leave()

    def test_help_fits(self):
        chat = Chat(self)
        chat.ask("/help\r", "/methods", "/load")
        chat.ask("/methods\r", "There are")
        chat.ask("/set\r", "changes one")
        self.assertEqual([line for line in chat.seen.split("\r\n") if len(line) > 80], [])
        for name in "/image", "/video", "/frames", "/detach", "/retry", "/undo", "/reset", "/set", "/methods", "/stats", "/save", "/load", "/help", "/quit":
            self.assertIn("  " + name, chat.seen)
        chat.leave()


class Saved(Case):
    def test_round_trip(self):
        row, clip = sample(video=False), sample(video=True)
        saved, again = self.path("a chat.json"), self.path("again.json")
        first = Chat(self, "--system", "Be brief.", "--num-frames", "4")
        first.ask("/image " + row["file"] + "\r", "tokens]", prompt="[1 attached] > ")
        first.ask(row["question"] + "\r", "answer token")
        first.ask("/video " + clip["file"] + "\r", " frames, ", prompt="[1 attached] > ")
        first.ask(clip["question"] + "\r", "answer token")
        first.ask(f"/save '{saved}'\r", "5 messages")
        first.ask("Describe the image.\r", "answer token")
        first.ask(f"/save {self.path('1.json')}\r", "7 messages")
        first.leave()
        second = Chat(self, "--num-frames", "8")  # the file says which frames
        second.ask(f"/load {saved}x\r", "No such file")
        second.ask(f"/load '{saved}'\r", "5 messages")
        second.ask(f"/save {again}\r", "5 messages")
        second.ask("Describe the image.\r", "answer token")
        second.ask(f"/save {self.path('2.json')}\r", "7 messages")
        second.leave()
        with open(self.path("1.json"), "rb") as a, open(self.path("2.json"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        with open(saved, "rb") as a, open(again, "rb") as b:
            text = a.read()
            self.assertEqual(text, b.read())
        video = json.loads(text)[3]["content"][0]
        self.assertEqual((video["type"], video["sampling"]), ("video", {"num-frames": 4}))
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.endswith((".json", ".part"))), ["1.json", "2.json", "a chat.json", "again.json"])

    def test_files_that_moved_or_changed(self):
        picture, saved = write_png(self.path("p.png")), self.path("c.json")
        chat = Chat(self, "-n", "1")
        chat.ask("/image ~/p.png\r", "tokens]", prompt="[1 attached] > ")
        chat.ask("What?\r", "answer token")
        chat.ask("/save " + saved + "\r", "2 messages")
        os.rename(picture, self.path("q.png"))
        chat.ask("/load " + saved + "\r", f"{saved}: message 1: {picture}: No such file or directory")
        chat.ask("/save " + self.path("gone.json") + "\r", "saved by its name alone", "2 messages")
        write_png(picture, colour=(1, 2, 3))
        chat.ask("/load " + saved + "\r", f"{picture}: is not what it was")
        os.rename(self.path("q.png"), picture)
        chat.ask("/load " + saved + "\r", "2 messages")
        chat.leave()

    def test_a_file_that_is_none(self):
        text = {"type": "text", "text": "x"}
        user, model = {"role": "user", "content": [text]}, {"role": "assistant", "content": [text]}
        chat = Chat(self)
        for content, seen in [("{", "saccade: "), ("{}", "no list of messages"), ("[1]", "message 1: it is no object"), ([user], "has no answer"), ([model], "where 'user' belongs"),
                              ([user, user], "message 2: \"role\" is 'user'"), ([{"role": "user"}], "is missing"), ([{**user, "x": 1}], '"x" is not known'),
                              ([{"role": "user", "content": []}], "does not end in a text"), ([{"role": "user", "content": [{"type": "audio"}]}], "found 'audio'"),
                              ([{"role": "user", "content": [{"type": "image", "base64": "*"}, text]}], "base64"), ([{"role": "user", "content": [{"type": "image"}, text]}], "file"),
                              ([{"role": "user", "content": [{"type": "video", "file": "README.md", "sampling": {"fps": "x"}}, text]}], '"fps"'),
                              ([user, model, {"role": "system", "content": [text]}], "where 'user' belongs")]:
            path = self.path("x.json", content if isinstance(content, str) else json.dumps(content))
            chat.ask(f"/load {path}\r", seen)
        chat.ask("/save " + self.path("kept.json") + "\r", "0 messages")
        chat.leave()


    def test_a_file_of_a_stranger(self):
        """What it holds writes no escape codes to the terminal; a pipe that nobody writes to is not waited for."""
        text = {"type": "text", "text": "x\033]0;title\007y\u009b31m\nz" + "\u00e4" * 200}
        answer = {"role": "assistant", "content": [text]}
        pipe = self.path("pi\033[31mpe")
        os.mkfifo(pipe)
        chat = Chat(self)
        for kind in "image", "video", "frames":
            file = self.path("x.json", json.dumps([{"role": "user", "content": [{"type": kind, "file": pipe}, text]}, answer]))
            chat.ask(f"/load {file}\r", "pi?[31mpe: not a regular file")
        file = self.path("x.json", json.dumps([{"role": "user", "content": [{"type": "\u009b31m"}, text]}, answer]))
        chat.ask(f"/load {file}\r", "found '??31m'")
        file = self.path("x.json", json.dumps([{"role": "user", "content": [text]}, answer]))
        chat.ask(f"/load {file}\r", "2 messages")
        chat.ask("/undo\r", "[taken back: x?]0;title?y?31m z" + "\u00e4" * 90)
        self.assertRegex(chat.seen, "\u00e4\\.\\.\\.; /retry asks it again")
        self.assertEqual([c for c in chat.seen if "\x80" <= c < "\xa0" or c == "\ufffd"], [])
        self.assertNotIn("]0;title\007", chat.seen)
        chat.leave()


class Pipes(Case):
    def test_standard_input(self):
        row, clip = sample(video=False), sample(video=True)
        with open(row["file"], "rb") as f:
            run = saccade("ask", "--image", "-", row["question"], stdin=f)
        self.assert_answer(run, row["answer"])
        for kind, what in ("--image", row), ("--video", clip):
            with subprocess.Popen(["cat", what["file"]], stdout=subprocess.PIPE) as cat:
                self.assert_answer(saccade("ask", kind, "/dev/stdin", what["question"], stdin=cat.stdout), what["answer"])
        self.assert_refused(saccade("ask", "--image", "-", "q"), 65, "standard input: nothing came")
        self.assert_refused(saccade("ask", "--image", "-", "--image", "-", "q", input="x"), 64, "one picture")
        self.assert_refused(saccade("ask", "--image", "-", "-", input="x"), 64, "the picture already")
        self.assert_refused(saccade("ask", "--image", "-", "q", input="x"), 65, "not a picture")
        self.assert_refused(saccade("ask", "--image", "https://a.org/b.png", "q"), 66, "not fetched")

    def test_a_chat_about_what_came_through_a_pipe(self):
        row = sample(video=False)
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(f"cat {row['file']} > {self.path('pipe')}", shell=True):
            chat = Chat(self, "--image", self.path("pipe"))
        chat.ask(row["question"] + "\r", row["answer"])
        chat.ask("/save " + self.path("c.json") + "\r", "2 messages")
        chat.ask("/retry\r", row["answer"])
        chat.ask("/load " + self.path("c.json") + "\r", "2 messages")
        chat.ask("/retry\r", row["answer"])
        chat.leave()
        with open(row["file"], "rb") as f, open(self.path("c.json"), encoding="utf-8") as saved:
            self.assertEqual(base64.b64decode(json.load(saved)[0]["content"][0]["base64"]), f.read())


def unsixel(data):
    """[(red, green, blue)] by row, of a DCS string of sixels."""
    head, body = data[1:].split("q", 1)
    _, _, width, height = map(int, re.match(r'"(\d+);(\d+);(\d+);(\d+)', body).groups())
    pixels, palette, x, y, colour = [[None] * width for _ in range((height + 5) // 6 * 6)], {}, 0, 0, 0
    for define, n, rest, run, letter, move in re.findall(r"(#)(\d+)((?:;\d+)*)|(?:!(\d+))?([?-~])|([$-])", body[re.match(r'"[\d;]+', body).end():]):
        if define:
            colour = int(n)
            if rest:
                palette[colour] = tuple(round(int(v) * 2.55) for v in rest.split(";")[2:])
        elif move:
            x, y = 0, y + 6 * (move == "-")
        else:
            for _ in range(int(run or 1)):
                for bit in range(6):
                    if ord(letter) - 63 >> bit & 1:
                        assert pixels[y + bit][x] is None, "a pixel is written twice"
                        pixels[y + bit][x] = palette[colour]
                x += 1
    assert all(None not in row for row in pixels[:height])
    return pixels[:height]


class Pictures(Case):
    KITTY_QUERY = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c"

    def setUp(self):
        super().setUp()
        self.picture = write_png(self.path("p.png"), width=40, height=30, colour=(200, 30, 30))

    def attach(self, answer="", typed="", options=(), **environment):
        """Strings that came to the terminal, which answers its query so; typed: keys that come before the answer."""
        chat = Chat(self, *options, **{"SACCADE_PICTURES": "", "TERM": "xterm", "TMUX": "", "STY": "", "TERM_PROGRAM": "", "LC_TERMINAL": "", **environment})
        at = len(chat.seen)
        chat.type("/image ~/p.png\r")
        if answer:
            chat.wait_for(self.KITTY_QUERY, at)
            chat.type(typed + answer)
        at = chat.wait_for("[1 attached] > ", at)
        if typed:
            chat.until(lambda s: s.line().endswith(typed), typed)
        strings = [s for s in chat.screen.strings if s not in ("_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA",)]
        asked = self.KITTY_QUERY in chat.seen
        self.assertEqual(chat.screen.line(), "[1 attached] > " + typed if typed else "[1 attached] >")
        chat.leave()
        return strings, asked

    def check_kitty(self, strings):
        self.assertTrue(strings[0].startswith("_Ga=T,q=2,f=24,s=40,v=30,m="), strings[0][:60])
        self.assertTrue(all(len(s.split(";", 1)[1]) <= 4096 for s in strings))
        self.assertTrue(strings[-1].split(";")[0].endswith("m=0"))
        pixels = base64.b64decode("".join(s.split(";", 1)[1] for s in strings))
        self.assertEqual(pixels, bytes((200, 30, 30)) * 1200)

    def test_known_terminals(self):
        for environment in {"TERM": "xterm-kitty"}, {"TERM_PROGRAM": "ghostty"}, {"SACCADE_PICTURES": "kitty"}:
            strings, asked = self.attach(**environment)
            self.check_kitty(strings)
            self.assertFalse(asked)
        for environment in {"TERM_PROGRAM": "iTerm.app"}, {"TERM_PROGRAM": "WezTerm"}, {"LC_TERMINAL": "iTerm2"}, {"SACCADE_PICTURES": "iterm2"}:
            (string,), asked = self.attach(**environment)
            head, data = string.split(":", 1)
            self.assertRegex(head, r"^\]1337;File=inline=1;size=\d+;width=40px;height=30px$")
            jpeg = base64.b64decode(data)
            self.assertEqual((jpeg[:3], len(jpeg)), (b"\xff\xd8\xff", int(re.search(r"size=(\d+)", head).group(1))))
            self.assertFalse(asked)

    def test_terminals_that_are_asked(self):
        strings, _ = self.attach("\033_Gi=31;OK\033\\\033[?62;c")
        self.check_kitty(strings)
        strings, _ = self.attach("\033[?62;4;22c")
        rows = unsixel(strings[0])
        self.assertEqual((len(rows), len(rows[0])), (30, 40))
        mean = [sum(p[c] for row in rows for p in row) / 1200 for c in range(3)]
        for c, want in enumerate((200, 30, 30)):
            self.assertLess(abs(mean[c] - want), 6)
        self.assertEqual(self.attach("\033[?1;2c"), ([], True))
        self.assertEqual(self.attach("\033_Gi=31;ENOTSUPPORTED\033\\\033[?64;14c"), ([], True))
        self.assertEqual(self.attach("\033[?1;2c", typed="what"), ([], True))  # typed ahead: it is not lost

    def test_where_none_are_shown(self):
        for environment in {"TERM": "xterm-kitty", "SACCADE_PICTURES": "none"}, {"TERM": "linux"}, {"TERM_PROGRAM": "Apple_Terminal"}, {"STY": "1", "TERM": "screen"}, {"STY": "1", "TERM_PROGRAM": "iTerm.app"}:
            self.assertEqual(self.attach(**environment), ([], False))
        for options in ("--no-pictures",), ("-q",):
            self.assertEqual(self.attach(options=options, TERM="xterm-kitty"), ([], False))
        # tmux: what is around it may be another terminal tomorrow; its own word counts
        self.assertEqual(self.attach("\033_Gi=31;OK\033\\\033[?1;2c", TMUX="x", TERM="screen", TERM_PROGRAM="iTerm.app"), ([], True))
        strings, _ = self.attach("\033[?1;2;4c", TMUX="x", TERM="tmux-256color", KITTY_WINDOW_ID="1")
        self.assertEqual(len(unsixel(strings[0])), 30)
        chat = Terminal("ask", environment={"SACCADE_PICTURES": "gif"})
        self.assertEqual((chat.exit_code(), "give auto, none, kitty" in chat.seen), (64, True))

    def test_a_large_picture_is_made_small(self):
        write_png(self.picture, width=3000, height=1000)
        strings, _ = self.attach(TERM="xterm-kitty")
        width, height = map(int, re.search(r"s=(\d+),v=(\d+)", strings[0]).groups())
        self.assertLessEqual(width, 48 * 8)
        self.assertLess(abs(width / height - 3), 0.1)


if __name__ == "__main__":
    main()
