"""Chat templates from the command line: files, names, variables, tools, and templates that cannot be run."""
import json
import os
import random
import shutil
import tempfile

from cli import ROOT, Case, main, sample, saccade

OWN = ("{% for m in messages %}{% if m.role == 'user' %}<|user|>{% for c in m.content %}{{ '<image>\n' if c.type == 'image' else c.text }}"
       "{% endfor %}{% else %}<|assistant|>{{ m.content if m.content is string else m.content[0].text }}<|end|>{% endif %}{% endfor %}"
       "{% if add_generation_prompt %}<|assistant|>{% endif %}")
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {}}}]
PIECES = ["{%", "%}", "{{", "}}", "{% for m in messages %}", "{% endfor %}", "{% if x", "{% endif %}", "{{ messages[0].content }}", "{{ raise_exception('no') }}",
          "{% include 'x' %}", "{% extends 'y' %}", "{{ x | nosuchfilter }}", "{{ 1 / 0 }}", "{{ messages[99].content }}", "{% set a = %}", "{{ 'open", "{# comment",
          "{{ messages.append(1) }}", "{% macro f( %}", "{{ f() }}", "{% block b %}", "<|user|>", "\n", "text"]
BROKEN = ["{%", "{% endfor %}", "{% include 'x' %}", "{{ x | nosuchfilter }}", "{% set a = %}", "{{ 'open", "{% macro f( %}", "{% block b %}{% endblock %}", "{{ ) }}"]


class Templates(Case):
    def ask(self, *options):
        row = sample(video=False)
        return saccade("ask", "--image", row["file"], *options, row["question"])

    def template(self, text):
        return self.path("own.jinja", text.encode())

    def test_a_file(self):
        self.assert_answer(self.ask("--chat", self.template(OWN)), sample(video=False)["answer"])
        self.assert_answer(self.ask("--chat", "default"), sample(video=False)["answer"])
        self.assert_answer(self.ask("--chat", "saccade"), sample(video=False)["answer"])
        self.assert_refused(self.ask("--chat", "nix"), 64, "nix", "no such file")

    def test_variables_and_tools(self):
        path = self.template("{% if shout %}{{ raise_exception('shouted ' ~ shout) }}{% endif %}{% if tools %}{{ raise_exception(tools[0].function.name) }}{% endif %}" + OWN)
        self.assert_answer(self.ask("--chat", path), sample(video=False)["answer"])
        self.assert_refused(self.ask("--chat", path, "--chat-template-kwargs", '{"shout": 3}'), 64, "shouted 3")
        tools = self.path("tools.json", json.dumps(TOOLS).encode())
        self.assert_refused(self.ask("--chat", path, "--tools", tools), 64, "look")
        self.assert_refused(self.ask("--chat", "saccade", "--tools", tools), 69, "tools", "saccade")
        self.assert_refused(self.ask("--tools", self.path("bad.json", b"{}")), 64, "bad.json", "array")
        self.assert_refused(self.ask("--chat-template-kwargs", "[1]"), 64, "--chat-template-kwargs", "object")
        self.assert_refused(self.ask("--chat-template-kwargs", '{"messages": 1}'), 64, "messages")

    def test_control_tokens(self):
        show = lambda *more: json.loads(saccade("ask", "--json", *more, "a <|end|> b").stdout)["usage"]["prompt_tokens"]
        self.assertGreater(show(), show("--parse-special"))
        self.assertEqual(show("--chat", "saccade"), show())
        self.assert_answer(saccade("ask", "--image", sample(video=False)["file"], "<image>"))

    def test_marks_of_videos(self):
        """Two tokens more where the template's own around a video stay; other models have no such."""
        models = os.path.join(ROOT, "tests", "golden", "models")
        with tempfile.TemporaryDirectory() as frames:
            for i in range(3):
                shutil.copy(os.path.join(models, f"frame{i}.png"), frames)
            show = lambda *more: json.loads(saccade("ask", "--json", "-m", os.path.join(models, "qwen3_vl"), "--chat", os.path.join(
                models, "marks.jinja"), "--max-tokens", "2", "--frames", frames, *more, "What?").stdout)["usage"]["prompt_tokens"]
            self.assertEqual(show("--keep-video-marks"), show() + 2)
        self.assert_refused(self.ask("--keep-video-marks"), 69, "keep_video_marks")

    def test_placeholders(self):
        self.assert_refused(self.ask("--chat", self.template("{% for m in messages %}{{ m.content[0].text }}{% endfor %}x")), 64, "own.jinja", "0 placeholders", "--chat")
        self.assert_refused(self.ask("--chat", self.template("{{ weird }}")), 64, "own.jinja", "--chat")

    def test_inspect(self):
        run = saccade("inspect")
        self.assertIn("chat_template.jinja", run.stdout)
        self.assertIn("|<|user|><image>", run.stdout)
        self.assertIn("A cat.", json.loads(saccade("inspect", "--json").stdout)["chat_example"])
        self.assertIn("saccade", saccade("inspect", "--chat", "saccade").stdout)

    def test_broken_templates(self):
        """Each drawn one gives a line that names the file, or an answer; one with a fault of syntax never does."""
        r = random.Random(7)
        for k in range(30):
            words = [r.choice(PIECES) for _ in range(r.randint(1, 8))]
            words.insert(r.randint(0, len(words)), r.choice(BROKEN))
            text = "".join(words)
            with self.subTest(text):
                run = saccade("ask", "--chat", self.template(text), "-n", "1", "x")
                if run.returncode == 0:
                    continue
                self.assertIn(run.returncode, (64, 65))
                self.assertRegex(run.stderr, r"^saccade: .*own\.jinja.*\n$")
                self.assertIn("--chat", run.stderr)
        for text in BROKEN:
            with self.subTest(text):
                self.assert_refused(saccade("ask", "--chat", self.template("<|user|>" + text), "x"), 65, "own.jinja line 1", "--chat")


if __name__ == "__main__":
    main()
