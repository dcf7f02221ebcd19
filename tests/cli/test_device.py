"""Which device a model runs on: a card that is not there is refused, or, with auto, done without in one line."""
from cli import Case, main, saccade, sample


class Device(Case):
    def ask(self, *options):
        row = sample(video=False)
        return row, saccade("ask", "-q", "--image", row["file"], *options, row["question"])

    def setUp(self):
        super().setUp()
        _, self.on_card = self.ask("--device", "cuda")

    def test_a_card_that_is_not_there_is_refused(self):
        if self.on_card.returncode == 0:
            self.skipTest("there is a card")
        self.assert_refused(self.on_card, 69, "CUDA")

    def test_auto_answers_wherever_it_can(self):
        row, done = self.ask("--device", "auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), row["answer"])
        lines = done.stderr.splitlines()
        if self.on_card.returncode == 0:
            self.assertEqual(lines, [])
        else:
            self.assertEqual(len(lines), 1, lines)
            self.assertRegex(lines[0], r"^saccade: no card is used: .*CUDA")

    def test_a_device_that_nobody_knows(self):
        for name in "cuda:x", "cuda:", "gpu", "":
            _, done = self.ask("--device", name)
            self.assert_refused(done, 64, f'device "{name}": give cpu, cuda, cuda:N or auto')

    def test_activations_that_the_cpu_does_not_have(self):
        _, done = self.ask("--activations", "bf16")
        self.assert_refused(done, 69, "activations in bf16: on the CPU they are f32")
        _, done = self.ask("--activations", "q4_k")
        self.assert_refused(done, 64, "activations \"q4_k\": give f32, f16 or bf16")
        row, done = self.ask("--activations", "f32")
        self.assertEqual(done.stdout.strip(), row["answer"])


if __name__ == "__main__":
    main()
