"""The server as the `openai` package sees it. Skipped where the package is not installed."""
import os
import unittest

from server import Case, Server, ask, is_video, main, media_part, questions, sample

try:
    import openai
except ImportError:
    openai = None


@unittest.skipUnless(openai, "the Python package openai is not installed")
class OpenAI(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--media-root", "samples", "--api-key", "secret")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__(None, None, None)

    def ask(self, content, **more):
        return self.client.chat.completions.create(model="demo", **{"temperature": 0, **more},
                                                   messages=[{"role": "user", "content": content}])

    def test_text(self):
        reply = self.ask("Hello", max_tokens=4)
        self.assertIsInstance(reply.choices[0].message.content, str)
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)

    def test_pictures(self):
        for row in [r for r in questions() if not is_video(r["file"])][:3]:
            self.assertEqual(self.ask(ask(row)).choices[0].message.content, row["answer"])

    def test_several_pictures(self):
        rows = [r for r in questions() if not is_video(r["file"])]
        files = list(dict.fromkeys(r["file"] for r in rows))[:2]
        reply = self.ask([media_part(f) for f in files] + [{"type": "text", "text": "Describe the image."}])
        self.assertEqual(reply.usage.model_extra["frames"], 2)

    def test_video(self):
        row = sample(video=True)
        self.assertEqual(self.ask(ask(row)).choices[0].message.content, row["answer"])
        url = "file://" + os.path.abspath(row["file"])
        reply = self.ask(ask(row, url), extra_body={"media_io_kwargs": {"video": {"num_frames": 8}}})
        self.assertEqual(reply.usage.model_extra["frames"], 8)

    def test_stream(self):
        row = next(r for r in questions() if r["question_type"] == "caption")
        text, usage, reason = "", None, None
        for chunk in self.ask(ask(row), stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
        self.assertEqual((text, reason), (row["answer"], "stop"))
        self.assertGreater(usage.completion_tokens, 5)

    def test_several_choices(self):
        """Each sampled by itself; the first is what the request gets alone."""
        content = ask(next(r for r in questions() if r["question_type"] == "caption"))
        sampled = {"temperature": 3.0, "seed": 7, "max_tokens": 16, "logprobs": True}
        reply, again = (self.ask(content, n=4, **sampled) for _ in range(2))
        texts = [c.message.content for c in reply.choices]
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2, 3])
        self.assertEqual([c.message.content for c in again.choices], texts)
        self.assertEqual(self.ask(content, **sampled).choices[0].message.content, texts[0])
        self.assertGreater(len(set(texts)), 1)
        n_tokens = sum(len(c.logprobs.content) for c in reply.choices)
        self.assertEqual(reply.usage.completion_tokens, n_tokens)
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + n_tokens)
        streamed, reasons, usage = [""] * 4, [None] * 4, None
        for chunk in self.ask(content, n=4, stream=True, stream_options={"include_usage": True}, **sampled):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                streamed[choice.index] += choice.delta.content or ""
                reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        self.assertEqual((streamed, reasons), (texts, [c.finish_reason for c in reply.choices]))
        self.assertEqual(usage.completion_tokens, n_tokens)

    def test_several_text_completions(self):
        more = {"model": "demo", "prompt": "Is the", "max_tokens": 6, "temperature": 1.5, "seed": 1, "logprobs": 1}
        reply = self.client.completions.create(n=3, **more)
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2])
        self.assertEqual(self.client.completions.create(**more).choices[0].text, reply.choices[0].text)
        self.assertEqual([c.logprobs.text_offset[0] for c in reply.choices], [0, 0, 0])
        streamed = [""] * 3
        for chunk in self.client.completions.create(n=3, stream=True, **more):
            streamed[chunk.choices[0].index] += chunk.choices[0].text
        self.assertEqual(streamed, [c.text for c in reply.choices])
        self.assertGreater(len(set(streamed)), 1)

    def test_prompts_of_text_completions(self):
        """Lists, token ids, and the prompt before the answer; each prompt's answers are those that it gets alone."""
        more = {"model": "demo", "max_tokens": 5, "temperature": 1.5, "seed": 3}
        alone = [self.client.completions.create(prompt=p, n=2, **more) for p in ("Is the", "How many")]
        both = self.client.completions.create(prompt=["Is the", "How many"], n=2, **more)
        self.assertEqual([c.index for c in both.choices], [0, 1, 2, 3])
        self.assertEqual([c.text for c in both.choices], [c.text for a in alone for c in a.choices])
        for count in "prompt_tokens", "completion_tokens", "total_tokens":
            self.assertEqual(getattr(both.usage, count), sum(getattr(a.usage, count) for a in alone), count)
        echoed = self.client.completions.create(prompt=["Is the", "How many"], n=2, echo=True, **more)
        self.assertEqual([c.text for c in echoed.choices], [p + c.text for p, a in zip(("Is the", "How many"), alone) for c in a.choices])
        texts = [""] * 4
        for chunk in self.client.completions.create(prompt=["Is the", "How many"], n=2, echo=True, stream=True, **more):
            texts[chunk.choices[0].index] += chunk.choices[0].text
        self.assertEqual(texts, [c.text for c in echoed.choices])
        ids = [7, 8, 9]
        one = self.client.completions.create(prompt=ids, echo=True, **more)
        self.assertEqual(one.usage.prompt_tokens, 3)
        two = self.client.completions.create(prompt=[ids, [7]], echo=True, **more)
        self.assertEqual((two.choices[0].text, two.usage.prompt_tokens), (one.choices[0].text, 4))
        for wrong in [], [[]], [1 << 30], ["a", 1], ["a", ""], [-1], ["a"] * 65:
            with self.assertRaises(openai.BadRequestError) as caught:
                self.client.completions.create(prompt=wrong, **more)
            self.assertEqual(caught.exception.param, "prompt")

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask("Hello", top_p=-1)
        self.assertEqual(caught.exception.param, "top_p")
        with self.assertRaises(openai.NotFoundError):
            self.client.chat.completions.create(model="x", messages=[{"role": "user", "content": "x"}])
        with openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0) as client:
            with self.assertRaises(openai.AuthenticationError):
                client.models.list()

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["demo"])


if __name__ == "__main__":
    main()
