"""What saccade.integrations does for evaluation packages: python_integrations.py PICTURE QUESTION ANSWER VIDEO, run by test_integrations.py.

lmms-eval and VLMEvalKit both need PyTorch (gigabytes), and VLMEvalKit is not on PyPI, so stand-ins of the parts that the modules use are made
here, after the published interfaces: lmms-eval 0.7.3 (lmms_eval/api/model.py, api/instance.py, models/registry_v2.py) and VLMEvalKit's
vlmeval/vlm/base.py. With LMMS_EVAL=real the installed lmms-eval is taken instead."""
import abc
import os
import sys
import types
from dataclasses import dataclass, field

picture, question, answer, video = sys.argv[1:]


def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    vars(made).update(members)


class lmms(abc.ABC):
    is_simple = True

    def __init__(self):
        self._rank, self._world_size = 0, 1
        self.cache_hook = CacheHook(None)
        self.task_dict = {}

    loglikelihood = abc.abstractmethod(lambda self, requests: [])
    generate_until = abc.abstractmethod(lambda self, requests: [])
    generate_until_multi_round = abc.abstractmethod(lambda self, requests: [])

    @classmethod
    def create_from_arg_string(cls, arg_string, additional_config=None):
        def value(text):  # as lmms_eval.utils.simple_parse_args_string
            return int(text) if text.isnumeric() else text
        args = dict(pair.split("=", 1) for pair in arg_string.split(","))
        return cls(**{k: value(v) for k, v in args.items()}, **{k: v for k, v in (additional_config or {}).items() if v is not None})


class CacheHook:
    def __init__(self, cachinglm=None):
        pass

    def add_partial(self, attr, req, res):
        pass


@dataclass
class TokenCounts:
    input_tokens: int = None
    output_tokens: int = None
    reasoning_tokens: int = None


@dataclass
class GenerationResult:
    text: str
    token_counts: TokenCounts = None


@dataclass
class Instance:
    request_type: str
    arguments: tuple
    idx: int
    metadata: dict = field(default_factory=dict)

    @property
    def args(self):
        return self.arguments


@dataclass(frozen=True)
class ModelManifest:
    model_id: str
    simple_class_path: str = None
    chat_class_path: str = None
    aliases: tuple = ()


if os.environ.get("LMMS_EVAL") == "real":
    from lmms_eval.api.instance import Instance  # noqa: F811
else:
    for name in "lmms_eval", "lmms_eval.api", "lmms_eval.models":
        module(name)
    module("lmms_eval.api.model", lmms=lmms)
    module("lmms_eval.api.instance", Instance=Instance, GenerationResult=GenerationResult, TokenCounts=TokenCounts)
    module("lmms_eval.models.registry_v2", ModelManifest=ModelManifest)


class BaseModel:
    INTERLEAVE = False
    allowed_types = ["text", "image"]

    def generate(self, message, dataset=None):
        for item in message:
            assert item["type"] in self.allowed_types, f"Invalid input type: {item['type']}"
        return self.generate_inner(message, dataset)


known = {}
for name in "vlmeval", "vlmeval.vlm":
    module(name)
module("vlmeval.vlm.base", BaseModel=BaseModel)
module("vlmeval.config", supported_VLM=known)

import saccade.integrations.lmms_eval as for_lmms  # noqa: E402
import saccade.integrations.vlmevalkit as for_vlmeval  # noqa: E402


def refused(kind, what, call):
    try:
        call()
    except kind as e:
        assert what in str(e), e
        return
    raise AssertionError("not refused: " + what)


# lmms-eval: as evaluator.py makes and asks a model.
manifest = for_lmms.manifest()
assert manifest.model_id == "saccade"
place, name = manifest.chat_class_path.rsplit(".", 1)
model = getattr(sys.modules[place], name).create_from_arg_string(
    "model=models/demo,ctx=4096,num_frames=4,prefill=dense", {"batch_size": 3, "max_batch_size": None, "device": None})
assert model.is_simple is False
docs = [{"url": picture, "type": "image"}, {"url": video, "type": "video"}]
model.task_dict = {"drawn": {"test": docs}}


def messages(doc):
    return [{"role": "user", "content": [doc, {"type": "text", "text": question}]}]


def request(i, **settings):
    return Instance("generate_until", (question, messages, settings, i % 2, "drawn", "test"), i, {"task": "drawn", "doc_id": i % 2, "repeats": 1})


results = model.generate_until([request(0, max_new_tokens=64), request(1, max_new_tokens=64, until=["\n\n"]), request(2, max_new_tokens=2, num_beams=1),
                                request(4, max_new_tokens=64, temperature=0, do_sample=False)])
assert [r.text for r in results[::3]] == [answer] * 2 and results[0].token_counts.input_tokens == 71
assert results[1].token_counts.input_tokens > 256 and results[1].text != answer
assert results[2].token_counts.output_tokens == 2 and answer.startswith(results[2].text)
from saccade.integrations._sampling import sampling_of
assert "temperature" not in sampling_of({"do_sample": True}, 8), "the checkpoint's own"
assert sampling_of({"do_sample": True, "temperature": 0.5}, 8)["temperature"] == 0.5
assert sampling_of({}, 8)["temperature"] == sampling_of({"do_sample": False, "temperature": 1}, 8)["temperature"] == 0
refused(ValueError, "num_beams=4", lambda: model.generate_until([request(0, num_beams=4)]))
refused(ValueError, "'audio'", lambda: model.part({"type": "audio", "url": "a.wav"}))
refused(ValueError, "cut the file", lambda: model.part({"type": "video", "url": video, "start_time": 1.0}))
refused(NotImplementedError, "generate_until", lambda: model.loglikelihood([]))

# VLMEvalKit: as run.py and inference.py do.
for_vlmeval.register("saccade", model="models/demo", ctx=4096, max_tokens=64)
model = known["saccade"]()
shown = [{"type": "image", "value": picture}, {"type": "text", "value": question}]
assert model.INTERLEAVE and model.VIDEO_LLM and model.generate(message=shown, dataset="MMBench_DEV_EN") == answer
refused(AssertionError, "audio", lambda: model.generate([{"type": "audio", "value": "a.wav"}]))
few = for_vlmeval.Saccade("models/demo", ctx=4096, nframe=4)
asked = [{"type": "video", "value": video}, {"type": "text", "value": "How many numbers appear?"}]
assert few.generate(asked) and few.session.generate([{"role": "user", "content": [few.part(p) for p in asked]}]).n_visual_tokens == 4 * 64
few.nframe = 8  # inference_video.py sets it to the data set's
assert few.session.generate([{"role": "user", "content": [few.part(p) for p in asked]}]).n_visual_tokens == 8 * 64
print("lmms-eval and VLMEvalKit")
