"""The structs and functions of include/saccade/saccade.h that the package uses, for ctypes. A test compares every offset with C's.

ctypes lets go of the interpreter's lock while a function runs and takes it again for callbacks.
"""
import ctypes as c
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint64, c_void_p

VERSION = "0.2."  # structs may change with the second number
PART_TEXT, PART_IMAGE, PART_VIDEO, PART_FRAMES, PART_PIXELS = range(5)

ProgressFn = c.CFUNCTYPE(None, c_void_p, c_char_p, c_int64, c_int64)
TextFn = c.CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)
StoppedFn = c.CFUNCTYPE(c_bool, c_void_p)
TileFn = c.CFUNCTYPE(None, c_void_p, c_size_t, c_int64, c_int, c_int, c_void_p)
TokenFn = c.CFUNCTYPE(None, c_void_p, c_void_p)
LogitsFn = c.CFUNCTYPE(None, c_void_p, POINTER(c_float), c_int)
MaskFn = c.CFUNCTYPE(None, c_void_p, POINTER(c.c_uint32), c_int)
KeptFn = c.CFUNCTYPE(None, c_void_p, c_int, POINTER(c_int32), c_int64, c_int64)


class Error(c.Structure):
    _fields_ = [("status", c_int), ("text", c.c_char * 400)]


class BuildInfo(c.Structure):
    _fields_ = [("version", c_char_p), ("compiler", c_char_p), ("cpu", c_char_p), ("cuda", c_char_p), ("cudnn", c_int),
                ("ffmpeg", c_char_p), ("ffmpeg_licence", c_char_p), ("licence", c_char_p)]


class ModelOptions(c.Structure):
    _fields_ = [("n_threads", c_int), ("chat_format", c_char_p), ("tokenizer", c_char_p),
                ("adapters", POINTER(c_char_p)), ("n_adapters", c_size_t), ("kept_adapters", POINTER(c_char_p)),
                ("n_kept_adapters", c_size_t), ("mmproj", c_char_p), ("weights", c_char_p),
                ("vision_cache_bytes", c_size_t),
                ("device", c_char_p), ("activations", c_char_p), ("fast", c_bool), ("image_min_pixels", c_int64),
                ("image_max_pixels", c_int64), ("progress", ProgressFn), ("progress_ctx", c_void_p)]


class ModelInfo(c.Structure):
    _fields_ = [("family", c_char_p), ("dtype", c_char_p), ("chat_format", c_char_p), ("chat_source", c_char_p),
                ("tokenizer", c_char_p), ("n_parameters", c_int64), ("weight_bytes", c_size_t), ("n_layers", c_int),
                ("hidden", c_int), ("n_heads", c_int), ("n_kv_heads", c_int), ("head_dim", c_int),
                ("intermediate", c_int), ("vocab", c_int), ("max_context", c_int64), ("rope_theta", c_double),
                ("has_vision", c_bool), ("vision_layers", c_int), ("vision_hidden", c_int), ("vision_heads", c_int),
                ("patch_size", c_int), ("image_size", c_int), ("tokens_per_frame", c_int), ("processor", c_char_p),
                ("n_threads", c_int), ("cpu", c_char_p), ("unknown_tokenizer", c_char_p), ("unknown_setting", c_char_p),
                ("mmproj", c_char_p), ("n_experts", c_int), ("n_experts_used", c_int), ("expert_intermediate", c_int),
                ("n_unrounded", c_int), ("first_unrounded", c_char_p)]


class SessionConfig(c.Structure):
    _fields_ = [("n_ctx", c_int64), ("prefill_chunk", c_int64), ("kv", c_char_p), ("prefill", c_char_p),
                ("decode", c_char_p), ("rope", c_char_p), ("reduce", c_char_p), ("guidance", c_bool),
                ("measure_mass", c_bool), ("draft", c_char_p)]


class VideoOptions(c.Structure):
    _fields_ = [("fps", c_double), ("num_frames", c_int), ("max_frames", c_int), ("max_pixels", c_int64),
                ("no_rotate", c_bool), ("key_frames", c_bool), ("skip_s", c_double), ("pace", c_int), ("most_s", c_double)]


class Frame(c.Structure):
    _fields_ = [("path", c_char_p), ("bytes", c_void_p), ("n_bytes", c_size_t), ("time_s", c_double),
                ("prepared", c_void_p)]


class Pixels(c.Structure):
    _fields_ = [("width", c_int), ("height", c_int), ("rgb", c_void_p), ("row_bytes", c_size_t), ("n_frames", c_size_t),
                ("time_s", POINTER(c_double)), ("key", POINTER(c_uint8))]


class Part(c.Structure):
    _fields_ = [("kind", c_int), ("text", c_char_p), ("path", c_char_p), ("bytes", c_void_p), ("n_bytes", c_size_t),
                ("frames", POINTER(Frame)), ("n_frames", c_size_t), ("video", VideoOptions), ("prepared", c_void_p),
                ("pixels", Pixels)]


class Message(c.Structure):
    _fields_ = [("role", c_char_p), ("parts", POINTER(Part)), ("n_parts", c_size_t), ("fields", c_char_p)]


class ChatOptions(c.Structure):
    _fields_ = [("tools", c_char_p), ("documents", c_char_p), ("variables", c_char_p), ("no_generation_prompt", c_bool),
                ("continue_final_message", c_bool), ("parse_special", c_bool), ("keep_video_marks", c_bool)]


class Sampling(c.Structure):
    _fields_ = [("max_tokens", c_int), ("temperature", c_double), ("top_k", c_int), ("top_p", c_double),
                ("min_p", c_double), ("repetition_penalty", c_double), ("seed", c_uint64), ("stop", POINTER(c_char_p)),
                ("n_stop", c_size_t), ("ignore_eos", c_bool), ("presence_penalty", c_double),
                ("frequency_penalty", c_double), ("logit_bias", c_void_p), ("n_logit_bias", c_size_t),
                ("logprobs", c_bool), ("top_logprobs", c_int), ("controls", c_void_p)]


class Events(c.Structure):
    _fields_ = [("ctx", c_void_p), ("text", TextFn), ("progress", ProgressFn), ("stopped", StoppedFn), ("tile", TileFn),
                ("token", TokenFn), ("logits", LogitsFn), ("mask", MaskFn)]


class Result(c.Structure):
    class Seconds(c.Structure):
        _fields_ = [(name, c_double) for name in ("media", "vision", "prefill", "decode", "first_token", "total")]
    _fields_ = [("text", c_void_p), ("n_text_bytes", c_size_t), ("finish_reason", c_char_p),
                ("tokens", POINTER(c_int32)), ("n_tokens", c_int64), ("n_prompt_tokens", c_int64),
                ("n_visual_tokens", c_int64), ("n_reused_tokens", c_int64), ("n_drafts", c_int64),
                ("n_drafted_tokens", c_int64), ("n_accepted_tokens", c_int64), ("prefill_is_short", c_bool),
                ("media", c_void_p), ("n_media", c_size_t), ("seconds", Seconds)]


class BatchItem(c.Structure):
    _fields_ = [("session", c_void_p), ("events", POINTER(Events)), ("token", c_int32), ("done", c_bool),
                ("status", c_int), ("error", Error)]


class LayerReport(c.Structure):
    _fields_ = [*((name, c_double) for name in ("prefill_kept", "prefill_work", "decode_read", "decode_rows", "decode_budget",
                                                "prefill_mass", "decode_mass", "select_seconds", "attend_seconds")),
                ("selections", c_int64), ("selection_cache_hits", c_int64)]


class TokenPlace(c.Structure):
    _fields_ = [(name, c_int32) for name in ("media", "tile", "row", "column", "rows", "columns")]


# The name in C of each struct above.
STRUCTS = {"sac_error": Error, "sac_build_info": BuildInfo, "sac_model_options": ModelOptions,
           "sac_model_info": ModelInfo, "sac_session_config": SessionConfig, "sac_video_options": VideoOptions,
           "sac_frame": Frame, "sac_pixels": Pixels, "sac_part": Part, "sac_message": Message, "sac_chat_options": ChatOptions, "sac_sampling": Sampling,
           "sac_events": Events, "sac_result": Result, "sac_batch_item": BatchItem,
           "sac_layer_report": LayerReport, "sac_token_place": TokenPlace}

_p, _err = c_void_p, POINTER(Error)
_out = POINTER(c_void_p)
_ask = [_p, POINTER(Message), c_size_t, POINTER(Sampling), POINTER(Events)]
# name: (result, arguments)
FUNCTIONS = {
    "sac_version": (c_char_p, []),
    "sac_status_name": (c_char_p, [c_int]),
    "sac_get_build_info": (None, [POINTER(BuildInfo)]),
    "sac_model_options_default": (None, [POINTER(ModelOptions)]),
    "sac_model_open": (c_int, [_out, c_char_p, POINTER(ModelOptions), _err]),
    "sac_model_free": (None, [_p]),
    "sac_model_get_info": (None, [_p, POINTER(ModelInfo)]),
    "sac_session_config_default": (None, [POINTER(SessionConfig)]),
    "sac_session_create": (c_int, [_out, _p, POINTER(SessionConfig), _err]),
    "sac_session_free": (None, [_p]),
    "sac_session_cancel": (None, [_p]),
    "sac_session_reset": (None, [_p]),
    "sac_session_set_adapter": (c_int, [_p, c_char_p, _err]),
    "sac_sampling_of_model": (None, [_p, POINTER(Sampling)]),
    "sac_controls_of_model": (c_int, [_out, _p, _err]),
    "sac_controls_set": (c_int, [_p, c_char_p, c_char_p, _err]),
    "sac_controls_free": (None, [_p]),
    "sac_session_begin": (c_int, [*_ask, _err]),
    "sac_session_begin_text": (c_int, [_p, c_char_p, c_size_t, POINTER(Sampling), POINTER(Events), _err]),
    "sac_session_set_chat": (c_int, [_p, POINTER(ChatOptions), _err]),
    "sac_session_keep_hidden": (None, [_p, POINTER(c_float)]),
    "sac_session_observe_kept": (None, [_p, KeptFn, c_void_p]),
    "sac_session_token_places": (c_int64, [_p, POINTER(TokenPlace), c_int64]),
    "sac_session_layer_stats": (c_bool, [_p, c_int, POINTER(LayerReport)]),
    "sac_session_step": (c_int, [_p, POINTER(Events), POINTER(c_int32), POINTER(c_bool), _err]),
    "sac_session_end": (None, [_p, POINTER(Result)]),
    "sac_session_generate": (c_int, [*_ask, POINTER(Result), _err]),
    "sac_session_prefill": (c_int, [_p, POINTER(Message), c_size_t, POINTER(Events), _err]),
    "sac_session_append": (c_int, [_p, POINTER(c_int32), c_size_t, POINTER(c_float), _err]),
    "sac_session_logits": (c_void_p, [_p]),
    "sac_tokenize_text": (c_int, [_p, c_char_p, c_size_t, c_bool, c_bool, POINTER(c_int32), c_size_t, POINTER(c_size_t), _err]),
    "sac_detokenize_ids": (c_int, [_p, POINTER(c_int32), c_size_t, c_bool, c_char_p, c_size_t, POINTER(c_size_t), _err]),
    "sac_batch_create": (c_int, [_out, _p, c_size_t, _err]),
    "sac_batch_free": (None, [_p]),
    "sac_batch_step": (c_int, [_p, POINTER(BatchItem), c_size_t, _err]),
}
