"""What the Python package does and refuses: python_checks.py PICTURE QUESTION ANSWER VIDEO, run by test_python.py."""
import asyncio
import ctypes
import inspect
import os
import signal
import sys
import threading
import time

import saccade

picture, text, answer, video = sys.argv[1:]
model = saccade.Model("models/demo")
session = model.session(ctx=4096)
assert model.info["family"] == "llava" and model.info["has_vision"]
with open(picture, "rb") as f:
    data = f.read()
assert session.ask(text, [data]).text == answer

def refused(kind, what, call):
    try:
        call()
    except kind as e:
        assert what in str(e), e
        return e
    raise AssertionError("not refused: " + what)

assert refused(saccade.Error, "nosuch.png", lambda: session.ask(text, ["nosuch.png"])).status == "NOT_FOUND"
refused(saccade.Error, "no_such_setting", lambda: session.ask(text, no_such_setting=1))
refused(TypeError, "type int", lambda: session.ask(text, [3]))
refused(ValueError, "NUL", lambda: session.ask("a\0b"))
assert session.ask(text, [data], max_tokens=1).finish_reason == "length"

class Array:  # as numpy shows its arrays
    def __init__(self, shape, strides=None, offset=0):
        self.kept = (ctypes.c_uint8 * (100 * 100 * 3))()
        self.__array_interface__ = {"shape": shape, "typestr": "|u1", "strides": strides, "version": 3,
                                    "data": (ctypes.addressof(self.kept) + offset, False)}

assert session.ask(text, [Array((40, 30, 3))]).n_visual_tokens > 0
assert session.ask(text, [Array((40, 30, 3), (120, 3, 1))]).text == session.ask(text, [Array((40, 30, 3))]).text
refused(ValueError, "ascontiguousarray", lambda: session.ask(text, [Array((40, 30, 3), (-120, 3, 1))]))
refused(ValueError, "[height][width][3]", lambda: session.ask(text, [Array((40, 30, 4))]))
frames = session.ask(text, videos=[saccade.Video(Array((4, 20, 20, 3)), times=[0, 1, 2.5, 3])]).n_visual_tokens
assert frames == session.ask(text, videos=[[picture] * 4]).n_visual_tokens
assert session.ask(text, videos=[saccade.Video(video, num_frames=4)]).n_visual_tokens == frames
keys = session.ask(text, videos=[saccade.Video(video, num_frames=4, key_frames=True)]).n_visual_tokens
assert 0 < keys < frames

stream = session.stream([{"role": "user", "content": [saccade.Image(data), "Describe the image."]}])
pieces = [next(stream), next(stream)]
assert stream.answer is None
stream.close()
assert stream.answer.finish_reason == "cancelled" and stream.answer.text.startswith("".join(pieces))
stream = session.stream([{"role": "user", "content": "Hi"}])
session.ask(text, [data])
refused(RuntimeError, "something else", lambda: next(stream))

messages = [{"role": "user", "content": [saccade.Image(data), text]}]
broken = [{"role": "user", "content": [saccade.Image(b"no picture"), text]}]
with saccade.Batch(model, 2, ctx=2048) as batch:
    mixed = batch.generate([messages, broken, messages, messages], return_errors=True)
    assert [getattr(a, "text", None) for a in mixed] == [answer, None, answer, answer]
    assert mixed[1].status == "BAD_FILE"
    refused(saccade.Error, "not a picture", lambda: batch.generate([messages, broken]))
    assert [str(a) for a in batch.generate([messages])] == [answer]

# Tokens and logits: views of what the library has, which it writes again with every call.
assert model.detokenize(model.tokenize(text)).strip() == text
vocab = model.info["vocab"]
with model.session(ctx=512) as small:
    assert small.logits is None
    ids = model.tokenize("What is this?")
    small.append(ids)
    view = small.logits
    last, address = list(view), ctypes.addressof(view.obj)
    assert len(last) == vocab and view.readonly and view.format == "f" and view.nbytes == 4 * vocab
    refused(BufferError, "in use", small.close)
    small.append([last.index(max(last))])
    assert list(view) != last and ctypes.addressof(small.logits.obj) == address
    view = None
    small.reset()
    rows = (ctypes.c_float * vocab * len(ids))()
    small.append(ids, out=rows)
    assert list(rows[-1]) == list(small.logits) and max(abs(a - b) for a, b in zip(rows[-1], last)) < 1e-3 < abs(rows[0][0] - last[0])
    refused(ValueError, f"({len(ids)}, {vocab})", lambda: small.append(ids, out=(ctypes.c_float * vocab)()))
    refused(ValueError, "writable", lambda: small.append(ids, out=memoryview(rows).toreadonly()))
    small.prefill([{"role": "user", "content": [saccade.Image(data), text]}])
    first = max(range(vocab), key=small.logits.__getitem__)
    assert model.detokenize([first]) and first == session.ask(text, [data]).tokens[0]

# Embeddings, and what attention kept: the session goes on as if nothing had been asked.
about = [{"role": "user", "content": [saccade.Image(data), text]}]
vector, long = session.embed(about), session.embed(about, normalize=False)
length = sum(v * v for v in long) ** 0.5
assert len(vector) == model.info["hidden"] and abs(sum(v * v for v in vector) - 1) < 1e-5 and abs(length - 1) > 1e-3
assert max(abs(a * length - b) for a, b in zip(vector, long)) < 1e-4 * length
assert session.embed(about, generation_prompt=True) != vector != session.embed(text) == session.embed(text)
refused(saccade.Error, "not a picture", lambda: session.embed([{"role": "user", "content": [saccade.Image(b"no picture")]}]))
refused(saccade.Error, "", lambda: session.embed("word " * 5000))
assert session.generate(about).text == answer  # the template opens the model's turn again
with model.session(ctx=4096, prefill="zipvl:min=0,tau=0.8") as sparse:
    dense, few = session.kept(about), sparse.kept(about)
    assert dense.share == 1 and dense.places == few.places and dense.n_tokens == few.n_tokens == len(few.places)
    assert 0 < few.share < 1 and len(few.layers) == len(dense.layers) == model.info["n_layers"]
    assert all(0 <= a < b < few.n_tokens for layer in few.layers for a, b in zip(layer, layer[1:]))
    assert sparse.kept(about).layers == few.layers
cells = [(p.row, p.column) for p in dense.places if p]
again = session.generate(about)
assert len(cells) == again.n_visual_tokens and cells == sorted(cells) and cells[0] == (0, 0) and dense.places[-1] is None
refused(saccade.Error, "nosuch", lambda: session.kept([{"role": "user", "content": [saccade.Image("nosuch.png")]}]))

def without_first(logits):
    seen.append(len(logits))
    logits[first] = -float("inf")
def keeps(logits):
    kept.append(memoryview(logits))
seen, kept = [], []
asked = [{"role": "user", "content": [saccade.Image(data), text]}]
assert first not in session.generate(asked, logits=without_first, max_tokens=3).tokens and set(seen) == {vocab}
refused(BufferError, "take a copy", lambda: session.generate(asked, logits=keeps))
refused(ZeroDivisionError, "", lambda: session.generate(asked, logits=lambda logits: 1 / 0))
assert session.generate(asked).text == answer

# asyncio: the loop goes on, tasks run side by side, and a cancelled one leaves its session free.
described = [{"role": "user", "content": [saccade.Image(data), "Describe the image."]}]
async def together():
    other = model.session(ctx=4096)
    answers = await asyncio.gather(session.aask(text, [data]), other.agenerate(asked))
    assert [a.text for a in answers] == [answer, answer]
    pieces, turns = [], []
    async def count():
        while True:
            turns.append(len(pieces))
            await asyncio.sleep(0)
    counting = asyncio.create_task(count())
    async with session.astream(described) as stream:
        async for piece in stream:
            pieces.append(piece)
    counting.cancel()
    assert "".join(pieces) == stream.answer.text and len(pieces) > 1 and len(turns) > len(pieces)
    stream = session.astream(described)
    assert await stream.__anext__()
    await stream.aclose()
    assert stream.answer.finish_reason == "cancelled"

    endless = {"ignore_eos": True, "max_tokens": 3000}
    async def read():
        async for _ in session.astream(described, **endless):
            read_some.set()
    read_some = asyncio.Event()
    steps = []
    counted = session.agenerate(asked, **endless, logits=lambda _: steps.append(1))
    for call, ready in (counted, asyncio.sleep(0.05)), (read(), read_some.wait()):
        task = asyncio.create_task(call)
        await asyncio.wait_for(ready, 60)
        task.cancel()
        try:
            await task
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            assert not session._lock.locked() and len(steps) < endless["max_tokens"] - 500
        assert (await session.aask(text, [data])).text == answer
    try:
        await session.aask(text, ["nosuch.png"])
        raise AssertionError("not refused")
    except saccade.Error as e:
        assert e.status == "NOT_FOUND"
    with saccade.Batch(model, 2, ctx=2048) as batch:
        assert [str(a) for a in await batch.agenerate([asked] * 3)] == [answer] * 3
        task = asyncio.create_task(batch.agenerate([asked] * 3, ignore_eos=True, max_tokens=1500))
        await asyncio.sleep(0.05)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert [str(a) for a in batch.generate([asked])] == [answer]
asyncio.run(together())

# Other threads run while the library works: in a call of 0.3 s that never calls back.
def tick():
    while not over:
        time.sleep(0.001)
        ticks.append(over)
over, ticks = [], []
thread = threading.Thread(target=tick)
thread.start()
before = len(ticks)
saccade._library.lib.sac_measure_read_bandwidth(model._handle)
during = len(ticks) - before
over.append(True)
thread.join()
assert during > 5, during

# A session is one thread's, another may cancel, and Ctrl-C ends a call.
long = {"text": "Describe the image. " * 300, "ignore_eos": True, "max_tokens": 1000}
def work():
    try:
        session.ask(**long)
    except saccade.Error as e:
        assert e.status == "CANCELLED"
        ended.append(True)
ended = []
thread = threading.Thread(target=work)
thread.start()
while not session._lock.locked():
    time.sleep(0.001)
refused(RuntimeError, "another thread", lambda: session.ask(text))
while thread.is_alive():  # the first may come before the library's call
    session.cancel()
    thread.join(0.05)
assert ended
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
refused(KeyboardInterrupt, "", lambda: session.ask(**long))
assert session.ask(text, [data]).text == answer

try:
    import numpy
    from PIL import Image
except ImportError:
    print("without numpy and Pillow")
else:
    image = Image.open(picture).convert("RGB")
    assert session.ask(text, [image]).text == session.ask(text, [numpy.asarray(image)]).text == answer
    wide = numpy.zeros((image.height, image.width + 5, 3), numpy.uint8)
    wide[:, :image.width] = numpy.asarray(image)
    assert session.ask(text, [wide[:, :image.width]]).text == answer  # rows with a gap between
    session.prefill(asked)
    logits = numpy.asarray(session.logits)
    assert logits.dtype == numpy.float32 and logits.shape == (vocab,) and not logits.flags.owndata and logits.argmax() == first
    del logits
    def in_place(values):
        numpy.asarray(values)[first] = -numpy.inf
    refused(BufferError, "take a copy", lambda: session.generate(asked, logits=lambda values: kept.append(numpy.asarray(values))))
    assert first not in session.generate(asked, logits=in_place, max_tokens=3).tokens
    rows = numpy.empty((2, vocab), "f4")
    session.append([first, first], out=rows)
    assert (rows[1] == numpy.asarray(session.logits)).all()
    refused(ValueError, "contiguous", lambda: session.append([first, first], out=numpy.empty((vocab, 2), "f4").T))
    film = [image, image.rotate(90), numpy.asarray(image)]
    whole = numpy.stack([numpy.asarray(frame) for frame in film])
    assert session.ask(text, videos=[film]).text == session.ask(text, videos=[whole]).text
    refused(ValueError, "one size", lambda: session.ask(text, videos=[[image, image.resize((9, 9))]]))
    refused(TypeError, "one kind", lambda: session.ask(text, videos=[[image, picture]]))
    refused(ValueError, "<f4", lambda: session.ask(text, [numpy.zeros((4, 4, 3), "f4")]))
    print("with numpy and Pillow")
# Type checkers see every public method whole.
for kind in (getattr(saccade, name) for name in saccade.__all__):
    for name, function in vars(kind).items():
        own = inspect.isfunction(function) and function.__module__.startswith("saccade")
        if own and (not name.startswith("_") or name in ("__init__", "__next__", "__anext__")):
            missing = [p for p in inspect.signature(function).parameters.values() if p.annotation is p.empty and p.name != "self"]
            assert not missing and "return" in function.__annotations__, (kind, name, missing)

model.close()
refused(ValueError, "closed", lambda: session.ask(text))
