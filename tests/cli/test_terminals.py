"""Pictures of a chat in real terminals, those that are installed: tools/try_terminals.py."""
import subprocess
import sys

from cli import Case, main

TRY = [sys.executable, "-B", "tools/try_terminals.py"]


def run(*arguments):
    return subprocess.run([*TRY, *arguments], text=True, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Terminals(Case):
    def test_pictures_are_shown(self):
        tried = run()
        if tried.returncode == 77:
            self.skipTest(tried.stdout.strip())
        print("  " + tried.stdout.strip().replace("\n", "\n  "))
        self.assertEqual(tried.returncode, 0, tried.stdout)
        self.assertIn(": the picture is shown, and /quit ends the chat", tried.stdout)

    def test_what_the_tool_refuses(self):
        refused = run("vt100")
        self.assertEqual(refused.returncode, 64, refused.stdout)
        self.assertIn("'vt100': there are xterm, ", refused.stdout)


if __name__ == "__main__":
    main()
