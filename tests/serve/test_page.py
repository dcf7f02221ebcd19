"""The page in Chromium and Firefox: a conversation, what the reader can do, what it looks like (against small references, as averages of blocks
of pixels, so that other fonts make no difference), axe-core. Skipped where neither browser is installed.

    SACCADE_RENEW=1 python3 tests/serve/test_page.py       draws the references anew, in Chromium
"""
import base64
import importlib.util
import json
import os
import time
import unittest
from pathlib import Path

from browsers import Chromium, Firefox, find
from server import Case, Server, main, write_pixels

REFERENCES = Path(__file__).resolve().parent / "page"
SIZES = {1280: 800, 390: 844}
THEMES = "light", "dark"
BLOCK = {1280: 20, 390: 15}
MEAN, MOST = 4, 50  # how far averages of blocks may be from the reference: all blocks together, and all but one in a hundred
IDLE = "document.querySelector('#ask').getAttribute('aria-label') === 'Ask'"
ANSWERED = IDLE + " && document.querySelectorAll('.model .facts, .model .problem').length >= {}"
STAGES = """window.stages = []; new MutationObserver(() => { const s = document.querySelector('.stage span'); if (s && s.textContent !== stages.at(-1))
  stages.push(s.textContent); }).observe(document.body, { subtree: true, childList: true, characterData: true });"""
DROP = """const data = new DataTransfer();
for (const [name, type, text] of args[0]) data.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], name, { type }));
if (args[1] === 'drop') for (const name of ['dragenter', 'dragover', 'drop'])
  document.querySelector('#log').dispatchEvent(new DragEvent(name, { dataTransfer: data, bubbles: true, cancelable: true }));
else document.querySelector('#question').dispatchEvent(Object.defineProperty(new Event('paste', { bubbles: true, cancelable: true }), 'clipboardData', { value: data }));
return document.querySelectorAll('#files li').length"""


def axe_source():
    spec = importlib.util.find_spec("axe_playwright_python")
    file = spec and Path(spec.submodule_search_locations[0]) / "axe.min.js"
    return file.read_text(encoding="utf-8") if file and file.exists() else None


def file_of(path, n_more=0):
    """n_more: bytes behind the file's end; with them it is another file, of which the server has nothing in its caches."""
    kind = "video/mp4" if path.endswith("mp4") else "image/png"
    return [os.path.basename(path), kind, base64.b64encode(Path("samples", path).read_bytes() + bytes(n_more)).decode()]


class Pages:
    """What both browsers are asked; a class of each follows."""

    @classmethod
    def setUpClass(cls):
        binary = find(cls.kind)
        if not binary:
            raise unittest.SkipTest(f"{cls.kind.name} is not installed")
        cls.axe = axe_source()
        if not cls.axe:
            print("axe-core (the Python package axe-playwright-python) is not installed: it is not asked")
        cls.server = Server("--request-methods", "--heartbeat-seconds", "5")
        try:
            cls.page = cls.kind(binary, cls.server.url)
        except BaseException:
            cls.server.__exit__(None, None, None)
            raise

    @classmethod
    def tearDownClass(cls):
        outside, errors = cls.page.outside, cls.page.errors
        cls.page.close()
        cls.server.__exit__(None, None, None)
        assert not outside, f"asked of others: {outside}"
        assert not errors, f"errors in {cls.kind.name}: {errors}"

    def setUp(self):
        super().setUp()
        self.page.size(1280, 800)
        self.fresh({})

    # ------------------------------------------------------------ what tests do

    def load(self, origin=None):
        self.page.open((origin or self.server.url) + "/")
        self.page.wait("document.querySelectorAll('#examples button').length === 3 && document.querySelector('#name').textContent", "the page does not start")

    def fresh(self, settings):
        """The page with nothing kept but these settings."""
        self.page.open(self.server.url + "/metrics")
        self.page.run("""localStorage.clear(); localStorage.setItem('saccade', JSON.stringify(args[0]));
          await new Promise(done => { const r = indexedDB.deleteDatabase('saccade'); r.onsuccess = r.onerror = r.onblocked = done; });""", settings)
        self.load()

    def text(self, selector, at=-1):
        return self.page.run("return [...document.querySelectorAll(args[0])].at(args[1])?.innerText.trim() ?? null", selector, at)

    def count(self, selector):
        return self.page.run("return document.querySelectorAll(args[0]).length", selector)

    def click(self, selector, at=-1):
        self.page.run("[...document.querySelectorAll(args[0])].at(args[1]).click()", selector, at)

    def write(self, text):
        self.page.run("const q = document.querySelector('#question'); q.value = args[0]; q.dispatchEvent(new Event('input')); q.focus()", text)

    def ask(self, question, files=(), how="drop", n_more=0):
        """The answer, once it is whole."""
        n = self.count(".model")
        if files:
            self.assertEqual(self.page.run(DROP, [file_of(f, n_more) for f in files], how), len(files))
        self.write(question)
        self.page.press("Enter")
        self.page.wait(ANSWERED.format(n + 1), f"no answer to {question!r}")
        self.assertIsNone(self.text(".problem"))
        return self.text(".answer")

    def looks_right(self, name, width, theme):
        """Against its reference: a table of averages of blocks, compared in the page."""
        file = REFERENCES / f"{name}_{width}_{theme}.png"
        block = BLOCK[width]
        blocks = self.page.run("""const load = async uri => { const i = new Image(); i.src = uri; await i.decode(); return i; };
          const pixels = i => { const c = document.createElement('canvas'); c.width = i.width; c.height = i.height; const d = c.getContext('2d');
            d.drawImage(i, 0, 0); return d.getImageData(0, 0, i.width, i.height).data; };
          const shot = await load(args[0]), p = pixels(shot), b = args[1], wide = Math.ceil(shot.width / b), high = Math.ceil(shot.height / b);
          const sums = Array(wide * high * 3).fill(0), n = Array(wide * high).fill(0);
          for (let y = 0; y < shot.height; y++) for (let x = 0; x < shot.width; x++) {
            const k = Math.floor(y / b) * wide + Math.floor(x / b); n[k]++;
            for (let c = 0; c < 3; c++) sums[3 * k + c] += p[4 * (y * shot.width + x) + c]; }
          const own = sums.map((s, i) => Math.round(s / n[Math.floor(i / 3)]));
          const had = args[2] && await load(args[2]);
          return { wide, high, own, had: had && had.width === wide && had.height === high ? [...pixels(had)].filter((_, i) => i % 4 < 3) : null };""",
                               *["data:image/png;base64," + base64.b64encode(self.page.picture()).decode(), block,
                                 "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode() if file.exists() else None])
        if os.environ.get("SACCADE_RENEW") and self.kind is Chromium:
            write_pixels(str(file), blocks["wide"], blocks["high"], bytes(blocks["own"]))
            return
        self.assertIsNotNone(blocks["had"], f"{file.name}: there is no reference of this size")
        differences = sorted(abs(a - b) for a, b in zip(blocks["own"], blocks["had"]))
        mean, most = sum(differences) / len(differences), differences[len(differences) * 99 // 100]
        print(f"{self.kind.name}: {file.stem}: blocks differ by {mean:.2f} of 255, all but one in a hundred by at most {most}")
        if mean > MEAN or most > MOST:
            Path("build", f"{self.kind.name}_{file.name}").write_bytes(self.page.picture())
        self.assertLessEqual(mean, MEAN, file.stem)
        self.assertLessEqual(most, MOST, file.stem)

    def stands_right(self, width):
        """Where things are, whatever the fonts: edges that meet, and buttons that a finger finds."""
        box = self.page.run("""const b = s => { const e = document.querySelector(s); if (!e || !e.getClientRects().length || getComputedStyle(e).visibility === 'hidden') return null;
            const r = e.getBoundingClientRect(); return { left: r.left, right: r.right, top: r.top, bottom: r.bottom, width: r.width, height: r.height }; };
          return Object.fromEntries(['aside', 'main', '#menu', '#log', '#form', '#messages', '.bubble', '.media', '.answer', '#ask', '#attach'].map(s => [s, b(s)]))""")
        narrow = width < 800
        self.assertEqual((box["aside"] is None, box["#menu"] is not None), (narrow, narrow))
        self.assertAlmostEqual(box["main"]["left"], 0 if narrow else box["aside"]["right"], delta=1)
        self.assertAlmostEqual(box["main"]["right"], width, delta=1)
        self.assertAlmostEqual(box["#log"]["bottom"], box["#form"]["top"], delta=1)
        self.assertAlmostEqual(box["#form"]["bottom"], SIZES[width], delta=1)
        self.assertAlmostEqual(box["#form"]["left"] - box["main"]["left"], box["main"]["right"] - box["#form"]["right"], delta=1)
        for button in "#ask", "#attach":
            self.assertGreaterEqual(min(box[button]["width"], box[button]["height"]), 44 if narrow else 36, button)
        if box[".bubble"]:
            self.assertAlmostEqual(box[".bubble"]["right"], box["#messages"]["right"], delta=1)
            self.assertAlmostEqual(box[".answer"]["left"], box["#messages"]["left"], delta=1)
            self.assertGreater(box[".bubble"]["left"], box["#messages"]["left"] + 30)
            self.assertGreaterEqual(box[".bubble"]["top"], box[".media"]["bottom"])

    def is_accessible(self, what):
        if not self.axe:
            return
        found = self.page.run("if (!window.axe) {" + self.axe + """; }
          const { violations } = await axe.run(document, { resultTypes: ['violations'] });
          return violations.map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join('; '))""")
        self.assertEqual(found, [], f"{self.kind.name}: {what}")

    def show_all(self, name):
        """Each width in light and dark: references and axe-core."""
        for width, height in SIZES.items():
            self.page.size(width, height)
            for theme in THEMES:
                self.page.run("""document.documentElement.dataset.theme = args[0];
                  document.activeElement.blur();
                  document.querySelector('#log').scrollTop = 1e6;
                  await new Promise(done => setTimeout(done, 250))""", theme)
                self.assertFalse(self.page.run("return document.documentElement.scrollWidth > innerWidth"), f"{name} is wider than {width}")
                self.stands_right(width)
                self.looks_right(name, width, theme)
                self.is_accessible(f"{name}, {width}, {theme}")

    # ------------------------------------------------------------ tests

    def test_beginning(self):
        """The empty page: how it looks, and how soon."""
        self.page.wait("[...document.querySelectorAll('#examples img')].every(i => i.complete) && document.querySelector('#examples video').readyState > 1",
                       "the examples do not show", 20)
        self.show_all("hello")
        self.page.size(1280, 800)
        paints = []
        for _ in range(5):
            self.load()
            self.page.wait("performance.getEntriesByName('first-contentful-paint').length", "nothing is painted")
            paints.append(self.page.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        quiet = os.getloadavg()[0] < os.cpu_count() / 2  # beside other tests a browser waits for its turn
        print(f"{self.kind.name}: first paint after {min(paints):.0f} ms, of {[round(p) for p in paints]}" + ("" if quiet else " on a busy machine"))
        self.assertLess(min(paints), 100 if quiet else 1000)

    def test_conversation(self):
        """Five turns with two pictures and a video, one of them from an example; then it is read again, edited, and answered anew."""
        self.page.run(STAGES)
        self.click("#examples button", 0)
        self.page.wait(ANSWERED.format(1), "no answer to the example")
        self.assertIn("green diamond", self.text(".answer"))
        self.assertEqual(self.ask("What color is the diamond?"), "green")
        self.assertRegex(self.text(".facts"), r"\((9\d|1\d\d) from the cache\)")
        self.assertEqual(self.ask("What number is written?", ["picture0003.png"], "paste"), "59")
        answer = self.ask("Which number appears last?", ["video0000_16.mp4"])
        self.assertEqual(answer, "87")
        self.assertEqual(self.page.run("return document.querySelector('#said').textContent"), "87")
        self.assertRegex(" | ".join(self.page.run("return stages")), r"(Decoding video0000_16.mp4|Looking): frame \d+ of 16.*Reading \d+ %")
        self.ask("How many numbers appear?")
        self.assertEqual(self.count("#messages > li"), 10)
        self.assertEqual(self.count(".media :is(img, video)"), 3)
        self.assertEqual(self.count(".kept"), 0, "dense attention keeps everything")
        said = [self.text(".answer", i) for i in range(5)]
        self.page.wait("document.querySelectorAll('#chats li').length === 1", "it is not listed")
        self.load()
        self.page.wait("document.querySelector('#chats .open')", "it is not listed any more")
        self.click("#chats .open")
        self.page.wait("document.querySelectorAll('.answer').length === 5", "it was not kept")
        self.assertEqual([self.text(".answer", i) for i in range(5)], said)
        self.assertEqual(self.count(".media :is(img, video)"), 3)
        self.page.wait("[...document.querySelectorAll('.media img')].every(i => i.complete && i.naturalWidth)", "pictures are not kept")
        self.page.run("for (const f of document.querySelectorAll('.facts')) f.textContent = 'facts'") # times differ, and so their lines
        self.show_all("chat")
        self.page.size(1280, 800)
        self.click(".model [aria-label=Regenerate]")
        self.page.wait(ANSWERED.format(5), "no answer again")
        self.assertEqual(self.text(".answer"), said[4])
        self.click(".user [aria-label=Edit]", 1)
        self.assertEqual(self.page.run("return document.querySelector('#question').value"), "What color is the diamond?")
        self.write("What color is the circle?")
        self.page.press("Enter")
        self.page.wait("document.querySelectorAll('#messages > li').length === 4 && " + ANSWERED.format(2), "no answer to what was edited")
        self.assertEqual(self.text(".answer"), "red")

    def test_stop(self):
        """A long video is stopped while it is read; what follows is answered."""
        self.page.run(STAGES)
        self.page.run(DROP, [file_of("video0002_256.mp4")], "drop")
        self.write("Which number appears last?")
        self.page.press("Enter")
        self.page.wait("stages.some(s => /frame \\d+ of \\d+|Reading/.test(s))", "no stage is told")
        self.page.press("Escape")
        self.page.wait(IDLE, "it does not stop")
        self.assertEqual(self.text(".facts"), "stopped")
        self.server.wait_for(lambda: self.server.n_requests() == 0, "the server goes on")
        self.assertEqual(self.ask("What number is written?", ["picture0000.png"]), "12")

    def test_overlay(self):
        """What a method kept is shown, by layer."""
        self.click("#open-settings")
        self.page.wait("!document.querySelector('#methods').hidden", "no methods")
        self.is_accessible("settings")
        self.page.run("""const s = document.querySelector('#prefill'), method = 'zipvl:min=0,tau=0.8';
          s.append(new Option(method));
          s.value = method;
          s.dispatchEvent(new Event('change', { bubbles: true }));
          document.querySelector('#settings').close()""")
        self.ask("Describe the image.", ["picture0005.png"])
        self.assertEqual(self.count(".kept"), 1)
        self.click(".kept summary")
        self.page.wait("document.querySelectorAll('.kept canvas').length === 1", "no overlay")
        looks = self.page.run("""const r = document.querySelector('.kept input'), out = [];
          for (let i = 0; i <= +r.max; i++) {
            r.value = i;
            r.dispatchEvent(new Event('input'));
            out.push([document.querySelector('.kept output').textContent, document.querySelector('.kept canvas').toDataURL()]);
          }
          return out""")
        self.assertGreater(len(looks), 2)
        self.assertGreater(len({data for _, data in looks}), 2, "all layers look alike")
        self.assertRegex(looks[1][0], r"layer 1 of \d+ · \d+ %")
        self.is_accessible("overlay")

    def test_camera(self):
        self.click("#photo")
        self.page.wait("document.querySelector('#camera').open && document.querySelector('#view').videoWidth", "no camera", 20)
        self.is_accessible("camera")
        self.click("#shot")
        self.page.wait("document.querySelectorAll('#files img').length === 1", "no photo")
        self.assertFalse(self.page.run("return document.querySelector('#camera').open || !!document.querySelector('#view').srcObject"))
        self.ask("Describe the image.")

    def test_keyboard(self):
        """The order of what Tab comes to, wide and narrow, and Escape."""
        order = "const e = document.activeElement; return e.id || e.className || e.parentNode.parentNode.id"
        self.page.run("document.querySelector('.skip').focus()")
        seen = []
        for _ in range(9):
            self.page.press("Tab")
            seen.append(self.page.run(order))
        self.assertEqual(seen, ["new", "open-settings", "log", "examples", "examples", "examples", "question", "attach", "photo"])
        self.page.size(390, 844)
        self.click("#menu")
        self.page.wait("document.activeElement.id === 'new' && document.querySelector('#menu').getAttribute('aria-expanded') === 'true'", "the list does not open")
        self.is_accessible("list")
        self.page.press("Escape")
        self.page.wait("document.activeElement.id === 'menu' && document.querySelector('#menu').getAttribute('aria-expanded') === 'false'", "the list does not close")

    def test_markdown(self):
        """Text never becomes markup, whatever stands in it, and takes no long time."""
        def render(text):
            return self.page.run("const { show } = await import('/page/markdown.js'), d = document.createElement('div'); show(d, args[0]); return d.innerHTML", text)
        self.assertEqual(render("a **b** *c* `d` ~~e~~ _f_ g_h_i 2*3*4"),
                         "<p>a <strong>b</strong> <em>c</em> <code>d</code> <del>e</del> <em>f</em> g_h_i 2<em>3</em>4</p>")
        self.assertEqual(render("# A\n\n- b\n  - c\n- d\n\n1. e\n2. f\n\n> g\n\n---"),
                         '<h3>A</h3><ul><li>b<ul><li>c</li></ul></li><li>d</li></ul><ol start="1"><li>e</li><li>f</li></ol><blockquote><p>g</p></blockquote><hr>')
        self.assertIn("<tbody><tr><td>1</td><td>2</td></tr></tbody>", render("| a | b |\n|---|---|\n| 1 | 2 |"))
        self.assertIn('<pre tabindex="0"><code>x &lt; 1\n\n&lt;b&gt;</code></pre>', render("```c\nx < 1\n\n<b>\n```"))
        self.assertEqual(render("<img src=x onerror=alert(1)>"), "<p>&lt;img src=x onerror=alert(1)&gt;</p>")
        for bad in "javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "//x":
            self.assertNotIn("href", render(f"[a]({bad})"), bad)
        self.assertIn('href="https://example.org/a_(b)"', render("![a](https://example.org/a_(b))"))
        self.assertNotIn("<img", render("![a](https://example.org/a.png)"))
        took = self.page.run("""const { show } = await import('/page/markdown.js'), at = performance.now();
          for (const s of ['**a ', '*a ', '[', '[a](', '`', '> ', '- ', '| a ', '_a ', '~~x', '\\n```', '1. ', '  - x\\n'])
            show(document.createElement('div'), s.repeat(20000));
          return performance.now() - at""")
        print(f"{self.kind.name}: hostile Markdown in {took:.0f} ms")
        self.assertLess(took, 20000)
        self.assertEqual(render("# a b ##\n\n## #c #"), "<h3>a b</h3><h4>#c</h4>")
        took = self.page.run("""const { show } = await import('/page/markdown.js'), at = performance.now(), long = ' '.repeat(100000), d = () => document.createElement('div');
          show(d(), '# x' + long + 'y');
          show(d(), '# x' + '#'.repeat(100000) + 'y');
          show(d(), '|a\\n' + long + '|x');
          show(d(), '|a\\n|-' + long + 'x');
          return performance.now() - at""")
        print(f"{self.kind.name}: lines of blanks in {took:.0f} ms")
        self.assertLess(took, 20000)
        counts = self.page.run("""const { show } = await import('/page/markdown.js'), d = document.createElement('div'), n = s => (show(d, s), d.querySelectorAll('li, br').length);
          return [n('- x\\n'.repeat(130000)), n('a\\n'.repeat(130000)), n('- ' + '`a`\\n  '.repeat(130000))]""")
        self.assertEqual(counts, [130000, 129999, 130000])  # more than a call takes arguments
        self.page.run("""const { show } = await import('/page/markdown.js'), d = document.createElement('div'), text = 'text\\n\\n```\\ncode to copy\\n```';
          d.id = 'copied';
          document.querySelector('#messages').append(d);
          show(d, text);
          const first = d.firstChild;
          show(d, text + '\\nmore');
          if (d.firstChild !== first) throw Error('made anew');
          const button = d.querySelector('button');
          new MutationObserver(() => { window.saidCopied ||= button.textContent === 'Copied'; }).observe(button, { childList: true });
          button.click()""")
        self.page.wait("window.saidCopied", "not copied", 10) # seen whenever this machine gets to look

    def test_full_storage(self):
        """A full quota: older conversations go, then files stay in memory, and the page goes on."""
        self.limit_storage(400000)
        for i, (file, answer, n_more) in enumerate([("picture0003.png", "59", 200000), ("picture0000.png", "12", 500000)]):
            self.click("#new")
            self.assertEqual(self.ask("What number is written?", [file], n_more=n_more), answer)
            self.page.wait("document.querySelectorAll('#chats li').length > 0", "it is not listed")
            self.page.wait(f"document.querySelector('#notice').hidden === {'true' if i == 0 else 'false'}", "what is said of the storage is wrong", 10)
        self.assertRegex(self.text("#notice"), "storage is full")
        self.assertEqual(self.count("#chats li"), 1)
        self.assertEqual(self.ask("Does the number 12 appear?"), "yes")
        self.limit_storage(None)

    def test_saving(self):
        """A question that is asked while the last answer is being written is kept as well; what is removed is gone."""
        kept = self.page.run("""const s = await import('/page/store.js'), file = id => ({ id, name: id, type: 'image/png', blob: new Blob([id]) });
          const ask = id => ({ role: 'user', text: id, files: [file(id)] }), c = { id: 'c', title: 't', updated: 1, messages: [ask('a')] };
          const writing = s.save(c);
          c.messages.push(ask('b'));
          await writing;
          await s.save(c);
          const [again] = await s.list();
          await s.fill(again);
          const texts = await Promise.all(again.messages.map(m => m.files[0].blob && m.files[0].blob.text()));
          await s.remove(again);
          await s.fill(Object.assign(again, { messages: [{ files: [{ id: 'a' }] }] }));
          return [texts, again.messages[0].files[0].blob, (await s.list()).length]""")
        self.assertEqual(kept, [["a", "b"], None, 0])

    def test_files_that_are_edited_away(self):
        """They are not kept for ever; and all is deleted when all is deleted."""
        kept = self.page.run("""const s = await import('/page/store.js'), file = id => ({ id, name: id, type: 'image/png', blob: new Blob([id]) });
          const has = async id => { const c = { messages: [{ files: [{ id }] }] }; await s.fill(c); return !!c.messages[0].files[0].blob; };
          const a = file('a'), c = { id: 'c', title: 't', updated: 1, messages: [{ role: 'user', files: [a, file('b')] }, { role: 'user', files: [file('d')] }] };
          await s.save(c);
          const before = [await has('a'), await has('b'), await has('d')];
          c.messages = [{ role: 'user', files: [a, file('e')] }];
          await s.save(c);
          const after = [await has('a'), await has('b'), await has('d'), await has('e')];
          await s.clear();
          return [before, after, await has('a'), (await s.list()).length]""")
        self.assertEqual(kept, [[True] * 3, [True, False, False, True], False, 0])

    def test_a_file_that_cannot_be_stored(self):
        """Not for want of room: no other conversation goes."""
        kept = self.page.run("""const s = await import('/page/store.js'), put = IDBObjectStore.prototype.put, chat = (id, files) => ({ id, title: id, updated: 1, messages: [{ role: 'user', files }] });
          await s.save(chat('older', []));
          IDBObjectStore.prototype.put = function (value, ...more) {
            if (value instanceof Blob) throw new DOMException('the file has changed', 'NotReadableError');
            return put.call(this, value, ...more); };
          const { lost, said } = await s.save(chat('newer', [{ id: 'f', name: 'f', type: 'image/png', blob: new Blob(['f']) }]));
          IDBObjectStore.prototype.put = put;
          return [lost, said, (await s.list()).map(c => c.id).sort()]""")
        self.assertEqual((kept[0], kept[2]), ([], ["newer", "older"]))
        self.assertRegex(kept[1], "^The browser does not store all of it: files")

    def test_deleted_while_it_is_answered(self):
        """The answer that is stopped with it does not bring it back."""
        for n_more, delete in (2, "#chats [aria-label^=Delete]"), (3, "#forget"):
            self.ask("What number is written?", ["picture0000.png"])
            self.page.wait("document.querySelectorAll('#chats li').length === 1", "it is not listed")
            self.page.run("window.confirm = () => true;" + STAGES)
            self.page.run(DROP, [file_of("video0002_256.mp4", n_more)], "drop")
            self.write("Which number appears last?")
            self.page.press("Enter")
            self.page.wait("stages.some(s => /frame \\d+ of \\d+|Reading/.test(s))", "no stage is told")
            self.click(delete)
            self.page.wait("document.querySelectorAll('#chats li, #messages li').length === 0", "it is not deleted")
            self.server.wait_for(lambda: self.server.n_requests() == 0, "the server goes on")
            self.assertEqual(self.ask("What number is written?", ["picture0003.png"]), "59")
            self.page.wait("document.querySelectorAll('#chats li').length > 0", "the next is not listed")
            self.assertEqual(self.page.run("const s = await import('/page/store.js'); return (await s.list()).length"), 1, delete)
            self.assertEqual(self.count("#chats li"), 1, delete)
            self.fresh({})

    def test_errors(self):
        """What the server refuses is told, and can be tried again."""
        self.page.run(DROP, [["broken.png", "image/png", base64.b64encode(b"no picture").decode()]], "drop")
        self.write("What is it?")
        self.page.press("Enter")
        self.page.wait("document.querySelector('.problem')", "no error is told")
        self.page.wait(IDLE, "it does not end")
        self.assertRegex(self.text(".problem"), "content\\[0\\]")
        self.assertEqual(self.count(".model [aria-label='Try again']"), 1)
        self.is_accessible("error")

    def test_names(self):
        """Stages name what is sent: questions that got no answer are not."""
        names = self.page.run("""const { mediaBefore, messagesOf, namesOf } = await import('/page/stream.js');
          const ask = name => ({ role: 'user', text: 'q', files: [{ name, type: 'image/png', blob: new Blob([name], { type: 'image/png' }) }] }), say = text => ({ role: 'assistant', text });
          const all = [ask('a'), say('x'), ask('lost'), say(''), ask('b')], sent = await messagesOf(all);
          return [namesOf(all), sent.flatMap(m => Array.isArray(m.content) ? m.content : []).filter(c => c.image_url).map(c => atob(c.image_url.url.split(',')[1])), mediaBefore(all)]""")
        self.assertEqual(names, [["a", "b"], ["a", "b"], 1])

    def test_key(self):
        """A server that wants an API key: the page asks for it, and goes on with it."""
        own, n_errors = self.page.origin, len(self.page.errors)
        with Server("--api-key", "secret") as server:
            self.page.origin = server.url
            self.page.open(server.url + "/")
            self.page.wait("document.querySelector('#settings').open && document.activeElement.id === 'key'", "no key is asked for")
            for key, right in ("wrong", False), ("secret", True):
                self.page.run("const k = document.querySelector('#key'); k.value = args[0]; k.dispatchEvent(new Event('change', { bubbles: true }))", key)
                self.click("#settings .main")
                self.page.wait("document.querySelector('#name').textContent === 'demo'" if right else
                               "document.querySelector('#settings').open && /not know this/.test(document.querySelector('#notice').textContent)", f"with a {key} key")
            self.assertEqual(self.ask("What number is written?", ["picture0000.png"]), "12")
            self.assertNotIn("secret", self.page.run("return JSON.stringify(localStorage)"))
            self.page.origin = own
            self.page.open(own + "/metrics")
        del self.page.errors[n_errors:]  # the console tells of refused requests


class InChromium(Pages, Case):
    kind = Chromium

    def limit_storage(self, n_bytes):
        """As another origin, of which nothing is kept yet: of others Chromium remembers for a while how much room there is."""
        origin = self.server.url.replace("127.0.0.1", "localhost")
        self.page.call("Storage.overrideQuotaForOrigin", origin=origin, **({"quotaSize": n_bytes} if n_bytes else {}))
        if n_bytes:
            self.load(origin)

    def test_dark_system(self):
        """Without a choice of the reader's, the system's."""
        grounds = []
        for scheme in THEMES:
            self.page.prefer(scheme)
            grounds.append(self.page.run("return getComputedStyle(document.body).backgroundColor"))
        self.page.prefer("light")
        self.assertEqual(grounds, ["rgb(255, 255, 255)", "rgb(21, 22, 25)"])


class InFirefox(Pages, Case):
    kind = Firefox

    def limit_storage(self, n_bytes):
        """Firefox has no quota to set: large files fail as they would."""
        self.page.run("""window.put ??= IDBObjectStore.prototype.put;
          IDBObjectStore.prototype.put = !args[0] ? put : function (value, ...more) {
            if (value.size > args[0]) throw new DOMException('full', 'QuotaExceededError');
            return put.call(this, value, ...more); }""", n_bytes)


if __name__ == "__main__":
    start = time.monotonic()
    try:
        main()
    finally:
        print(f"{time.monotonic() - start:.0f} s")
