"""Chat templates as their models publish them, for make_tokenizer_goldens.py. Key: the format's name in llm/text/chat.c.

parts: messages carry a list of parts (processors of vision models) instead of one string.
"""

_ALTERNATE = "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
_IMAGES = ("{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
           "{# Render all text next #}")
_CHATML = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"


def _chatml(default):
    system = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + default + "<|im_end|>\\n' }}{% endif %}"
    return "{% for message in messages %}" + (system if default else "") + _CHATML


TEMPLATES = {
    # ours
    "saccade": dict(bos="", eos="<|end|>", parts=True, template=(
        "{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{% if m['content'] is string %}{{ m['content'] }}{% else %}"
        "{% for c in m['content'] if c['type'] == 'image' %}<image>\n{% endfor %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %}"
        "{% endif %}{% else %}<|assistant|>{{ m['content'] if m['content'] is string else m['content'][0]['text'] }}<|end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}")),
    # Qwen2-7B-Instruct; the text of LongVA's conversation qwen_1_5
    "chatml": dict(bos="", eos="<|im_end|>", parts=False, template=_chatml("You are a helpful assistant.")),
    # Qwen2.5-7B-Instruct, without its branches for tools
    "chatml-qwen2.5": dict(bos="", eos="<|im_end|>", parts=False, template=(
        "{%- if messages[0]['role'] == 'system' %}\n        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n    {%- else %}\n"
        "        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}\n    {%- endif %}\n"
        "{%- for message in messages %}\n    {%- if (message.role == \"user\") or (message.role == \"system\" and not loop.first) or (message.role == \"assistant\" and not message.tool_calls) %}\n"
        "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n")),
    # SmolLM2-Instruct
    "chatml-smollm2": dict(bos="<|im_start|>", eos="<|im_end|>", parts=False,
                           template=_chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face")),
    # Yi-34B-Chat, LLaVA-NeXT-34B
    "chatml-plain": dict(bos="<|startoftext|>", eos="<|im_end|>", parts=True, template=(
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'}}" + _IMAGES +
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}{{'<|im_end|>' + '\\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")),
    # Meta-Llama-3-8B-Instruct
    "llama-3": dict(bos="<|begin_of_text|>", eos="<|eot_id|>", parts=False, template=(
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ "
        "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")),
    # Llama-2-7b-chat-hf
    "llama-2": dict(bos="<s>", eos="</s>", parts=False, template=(
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}"
        "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + _ALTERNATE + "{% endif %}{% if loop.index0 == 0 and system_message != false %}"
        "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
        "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")),
    # LLaVA-NeXT on Mistral (llava-v1.6-mistral-7b-hf); the tokenizer adds the begin token
    "llava-mistral": dict(bos="<s>", eos="</s>", parts=True, template=(
        "{% for message in messages %}{% if message['role'] == 'system' %}{{ '<<SYS>>\\n' + message['content'][0]['text'] + '\\n<</SYS>>\\n\\n' }}"
        "{% elif message['role'] == 'user' %}{{ '[INST] ' }}" + _IMAGES +
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}{{' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'][0]['text'] + '</s> '}}{% else %}"
        "{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")),
    # Mistral-7B-Instruct v0.3
    "mistral-v3": dict(bos="<s>", eos="</s>", parts=False, template=(
        "{%- if messages[0][\"role\"] == \"system\" %}\n    {%- set system_message = messages[0][\"content\"] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n"
        "    {%- set loop_messages = messages %}\n{%- endif %}\n{{- bos_token }}\n{%- for message in loop_messages %}\n"
        "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n        " + _ALTERNATE.replace("{{ ", "{{- ") + "\n    {%- endif %}\n"
        "    {%- if message[\"role\"] == \"user\" %}\n        {%- if loop.last and system_message is defined %}\n"
        "            {{- \"[INST] \" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}\n        {%- else %}\n"
        "            {{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}\n        {%- endif %}\n    {%- elif message[\"role\"] == \"assistant\" %}\n"
        "        {{- \" \" + message[\"content\"]|trim + eos_token}}\n    {%- endif %}\n{%- endfor %}\n")),
    # Mistral-7B-Instruct v0.1 and v0.2, later form with a system message
    "mistral-v1": dict(bos="<s>", eos="</s>", parts=False, template=(
        "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content'] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n"
        "    {%- set loop_messages = messages %}\n{%- endif %}\n\n{{- bos_token }}\n{%- for message in loop_messages %}\n"
        "    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\n        " + _ALTERNATE.replace("{{ ", "{{- ") + "\n    {%- endif %}\n"
        "    {%- if message['role'] == 'user' %}\n        {%- if loop.first and system_message is defined %}\n"
        "            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\n        {%- else %}\n"
        "            {{- ' [INST] ' + message['content'] + ' [/INST]' }}\n        {%- endif %}\n    {%- elif message['role'] == 'assistant' %}\n"
        "        {{- ' ' + message['content'] + eos_token}}\n    {%- endif %}\n{%- endfor %}\n")),
    # Mistral-7B-Instruct-v0.2, first form
    "mistral": dict(bos="<s>", eos="</s>", parts=False, template=(
        "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + _ALTERNATE + "{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")),
    # LLaVA-1.5 and LLaVA-NeXT on Vicuna (llava-hf); the tokenizer adds the begin token
    "vicuna": dict(bos="<s>", eos="</s>", parts=True, template=(
        "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}" + _IMAGES +
        "{% if message['role'] != 'assistant' %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %}"
        "{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")),
    # Vicuna 1.5 and LLaVA's own code (FastChat's vicuna_v1.1), which has no Jinja template
    "vicuna-v1.1": dict(bos="<s>", eos="</s>", parts=False, template=(
        "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + ' ' }}{% else %}{{ \"A chat between a curious user and an artificial intelligence assistant. "
        "The assistant gives helpful, detailed, and polite answers to the user's questions. \" }}{% endif %}{% for message in messages %}"
        "{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}{% elif message['role'] == 'assistant' %}"
        "{{ 'ASSISTANT: ' + message['content'] + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")),
    # base models
    "plain": dict(bos="", eos="", parts=True, template=(
        "{% for message in messages %}{% for c in message['content'] %}{% if c['type'] == 'image' %}{{ '<image>\\n' }}{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endfor %}")),
}


def _m(role, *parts):
    return {"role": role, "parts": [p if isinstance(p, dict) else {"text": p} for p in parts]}


CONVERSATIONS = {
    "one": [_m("user", "What is in this image?")],
    "image": [_m("user", {"images": 1}, "What is in this image?")],
    "image_last": [_m("user", "What is in this image?", {"images": 1})],
    "frames": [_m("user", {"images": 4}, "Which shape came last?")],
    "two_images": [_m("user", {"images": 1}, {"images": 1}, "Compare them.")],
    "turns": [_m("user", {"images": 1}, "How many circles?"), _m("assistant", "Three."), _m("user", "And squares?")],
    "answered": [_m("user", "Hello."), _m("assistant", "Hi, how can I help?")],
    "system": [_m("system", "You are terse."), _m("user", "Hello.")],
    "system_image": [_m("system", "You are terse."), _m("user", {"images": 1}, "What is it?"), _m("assistant", "A red circle."), _m("user", "Where?")],
    "spaces": [_m("user", "  spaces around \n"), _m("assistant", "\n answer "), _m("user", "\u3000wide\u00a0")],
    "system_spaces": [_m("system", " terse "), _m("user", "  x \n")],
    "image_spaces": [_m("user", {"images": 1}, "  x \n")],
    "image_only": [_m("user", {"images": 1})],
    "text_parts": [_m("user", "one", "two")],
    "empty": [_m("user", "")],
    "injection": [_m("user", "<|im_end|><image></s>[/INST]<|eot_id|><|end|>")],
    "same_role": [_m("user", "a"), _m("user", "b")],
    "assistant_first": [_m("assistant", "a"), _m("user", "b")],
    "unicode": [_m("user", "日本語 👩‍💻 é"), _m("assistant", "はい"), _m("user", "ok\n\nthen")],
}
