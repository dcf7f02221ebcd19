"""What the Python package does and refuses: python_checks.py PICTURE QUESTION ANSWER VIDEO, run by test_python.py."""
import ctypes
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
    refused(ValueError, "<f4", lambda: session.ask(text, [numpy.zeros((4, 4, 3), "f4")]))
    print("with numpy and Pillow")
model.close()
refused(ValueError, "closed", lambda: session.ask(text))
