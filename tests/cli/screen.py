"""What a terminal shows of the bytes it gets: a small one, of the sequences that libedit and the chat write for TERM=xterm.

Wide characters take two cells, the second of which holds "". What it does not know is an error: a test must not pass because
its terminal looks away. Pictures (APC, DCS, OSC strings) are kept in .strings.
"""
import re
import unicodedata

SEQUENCE = re.compile("\033(?:\\[([?>=]?)([0-9;]*)([@-~])|([_P\\]])(.*?)(?:\033\\\\|\a)|([78=>c]))", re.S)


def width_of(c):
    if unicodedata.combining(c) or c == "\u200d":
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


class Screen:
    def __init__(self, rows=24, columns=80):
        self.rows, self.columns = rows, columns
        self.cells = [self._blank() for _ in range(rows)]
        self.x = self.y = 0
        self.late = False  # the last column is written, the line end comes with the next character
        self.strings = []

    def _blank(self):
        return [" "] * self.columns

    def feed(self, text):
        """All of text; returns what is a sequence's beginning at its end."""
        while text:
            if text[0] == "\033":
                found = SEQUENCE.match(text)
                if not found:
                    if len(text) > 20 and text[1] == "[":
                        raise AssertionError(f"unknown sequence {text[:20]!r}")
                    return text
                text = text[found.end():]
                self._sequence(*found.groups())
            else:
                self._character(text[0])
                text = text[1:]
        return ""

    def _line_feed(self):
        if self.y == self.rows - 1:
            self.cells = self.cells[1:] + [self._blank()]
        else:
            self.y += 1

    def _character(self, c):
        if c in "\r\n\b\a\t":
            self.late = False
            if c == "\r":
                self.x = 0
            elif c == "\n":
                self._line_feed()
            elif c == "\b":
                self.x = max(0, self.x - 1)
            elif c == "\t":
                self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
            return
        assert ord(c) >= 0x20, f"control character {c!r} on the screen"
        n = width_of(c)
        if n == 0:
            self.cells[self.y][max(0, self.x - 1)] += c
            return
        if self.late or self.x + n > self.columns:
            self.x, self.late = 0, False
            self._line_feed()
        row = self.cells[self.y]
        row[self.x:self.x + n] = [c] + [""] * (n - 1)
        self.x += n
        if self.x >= self.columns:
            self.x, self.late = self.columns - 1, True

    def _sequence(self, private, numbers, final, string, content, single):
        if string:
            self.strings.append(string + content)
            return
        if single or private or final in "mhlc":
            return
        self.late = False
        n = int(numbers.split(";")[0] or 0) if numbers else 0
        row, x = self.cells[self.y], self.x
        if final == "A":
            self.y = max(0, self.y - max(n, 1))
        elif final == "B":
            self.y = min(self.rows - 1, self.y + max(n, 1))
        elif final == "C":
            self.x = min(self.columns - 1, x + max(n, 1))
        elif final == "D":
            self.x = max(0, x - max(n, 1))
        elif final == "G":
            self.x = max(n, 1) - 1
        elif final == "H":
            parts = (numbers.split(";") + [""])[:2]
            self.y, self.x = int(parts[0] or 1) - 1, int(parts[1] or 1) - 1
        elif final == "K":
            self.cells[self.y] = [row[:x] + [" "] * (self.columns - x), [" "] * (x + 1) + row[x + 1:], self._blank()][n]
        elif final == "J":
            self.cells[self.y] = row[:x] + [" "] * (self.columns - x) if n == 0 else self._blank()
            for y in range(self.y + 1 if n == 0 else 0, self.rows):
                self.cells[y] = self._blank()
        elif final == "P":
            self.cells[self.y] = (row[:x] + row[x + max(n, 1):] + self._blank())[:self.columns]
        elif final == "@":
            self.cells[self.y] = (row[:x] + [" "] * max(n, 1) + row[x:])[:self.columns]
        else:
            raise AssertionError(f"unknown sequence ESC [ {private}{numbers}{final}")

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def line(self):
        """The one that the cursor is on."""
        return self.lines()[self.y]
