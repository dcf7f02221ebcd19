"""Chat templates as published families of models write them, for make_chat_golden.py.

Each: the tokenizer that its cases use, special tokens by name, and the template, or several by name. parts: contents
are lists, as processors of vision models take them. text_arguments: tool calls carry their arguments as a text.
adds_special: the ids are a processor's, which adds the tokenizer's begin token unless it is there."""

IMAGES_FIRST = (
    "{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}"
    "{# Render all video then #}{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}{{ '<video>\\n' }}{% endfor %}"
    "{# Render all text next #}")
TEXTS = "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}"
ALTERNATE = "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

CHATML_LOOP = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"


def chatml(default=None, bos=False, end="", trim=False):
    first = "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + default + "<|im_end|>\\n' }}{% endif %}" if default else ""
    loop = CHATML_LOOP.replace("message['content']", "message['content'] | trim") if trim else CHATML_LOOP
    return ("{{bos_token}}" if bos else "") + "{% for message in messages %}" + first + loop.replace("assistant\\n' }}{% endif %}", "assistant\\n" + end + "' }}{% endif %}")


def qwen_tools(default, think=""):
    """Qwen2.5's template; think: what the generation prompt ends with."""
    return """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- '""" + default + """' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\n""" + default + """<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n""" + think + """' }}
{%- endif %}
"""


QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
          "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")

LLAMA31 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have access to the following functions. To call a function, please respond with JSON for a function call.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "Given the following functions, please respond with a JSON for a function call with its proper arguments that best answers the given prompt.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}
            {{- '"parameters": ' }}
            {{- tool_call.arguments | tojson }}
            {{- "}" }}
        {%- endif %}
        {%- if builtin_tools is defined %}
            {{- "<|eom_id|>" }}
        {%- else %}
            {{- "<|eot_id|>" }}
        {%- endif %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

LLAMA32_VISION = """{{- bos_token }}
{#- Extract system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{#- Find out if there are any images #}
{% set image_ns = namespace(has_images=false) %}
{%- for message in messages %}
    {%- for content in message['content'] %}
        {%- if content['type'] == 'image' %}
            {%- set image_ns.has_images = true %}
        {%- endif %}
    {%- endfor %}
{%- endfor %}
{%- if not image_ns.has_images %}
    {{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
    {{- system_message }}
    {{- "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for content in message['content'] %}
            {%- if content['type'] == 'image' %}
                {{- '<|image|>' }}
            {%- elif content['type'] == 'text' %}
                {{- content['text'] }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

LLAMA4 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content']|trim %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text']|trim %}
    {%- endif %}
    {%- set messages = messages[1:] %}
    {%- set user_supplied_system_message = true %}
{%- else %}
    {%- set system_message = "" %}
    {%- set user_supplied_system_message = false %}
{%- endif %}
{%- if user_supplied_system_message %}
    {{- "<|header_start|>system<|header_end|>\\n\\n" }}
    {{- system_message }}
    {{- "<|eot|>" }}
{%- endif %}
{%- for message in messages %}
    {{- '<|header_start|>' + message['role'] + '<|header_end|>\\n\\n' }}
    {%- if message['content'] is string %}
        {{- message['content'] }}
    {%- else %}
        {%- for content in message['content'] %}
            {%- if content['type'] == 'image' %}
                {{- '<|image|>' }}
            {%- elif content['type'] == 'text' %}
                {{- content['text'] | trim }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- "<|eot|>" }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header_start|>assistant<|header_end|>\\n\\n' }}
{%- endif %}
"""

LLAMA2_DEFAULT = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
                  "{% elif true == true and not '<<SYS>>' in messages[0]['content'] %}{% set loop_messages = messages %}{% set system_message = 'You are a helpful, respectful and honest assistant.' %}"
                  "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
                  "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}"
                  "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
                  "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
                  "{% elif message['role'] == 'system' %}{{ '<<SYS>>\\n' + content.strip() + '\\n<</SYS>>\\n\\n' }}"
                  "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}")
LLAMA2 = LLAMA2_DEFAULT.replace("{% elif true == true and not '<<SYS>>' in messages[0]['content'] %}{% set loop_messages = messages %}{% set system_message = 'You are a helpful, respectful and honest assistant.' %}", "")

MISTRAL_V1 = ("{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}"
              "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
              "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")


def mistral(open_, close, first="", system="last", tools=True):
    """Mistral's templates of v3 and later. open_, close: around a question."""
    show = ('        {%- if tools is not none and (message == user_messages[-1]) %}\n            {{- "[AVAILABLE_TOOLS]' + first + '[" }}\n            {%- for tool in tools %}\n                {%- set tool = tool.function %}\n'
            '                {{- \'{"type": "function", "function": {\' }}\n                {%- for key, val in tool.items() if key != "return" %}\n                    {%- if val is string %}\n                        {{- \'"\' + key + \'": "\' + val + \'"\' }}\n'
            '                    {%- else %}\n                        {{- \'"\' + key + \'": \' + val|tojson }}\n                    {%- endif %}\n                    {%- if not loop.last %}\n                        {{- ", " }}\n                    {%- endif %}\n'
            '                {%- endfor %}\n                {{- "}}" }}\n                {%- if not loop.last %}\n                    {{- ", " }}\n                {%- else %}\n                    {{- "]" }}\n                {%- endif %}\n            {%- endfor %}\n'
            '            {{- "[/AVAILABLE_TOOLS]" }}\n            {%- endif %}\n') if tools else ""
    return """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- This block checks for alternating user/assistant messages, skipping tool calling messages #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
""" + show + """        {%- if loop.""" + system + """ and system_message is defined %}
            {{- '""" + open_ + """' + system_message + "\\n\\n" + message["content"] + '""" + close + """' }}
        {%- else %}
            {{- '""" + open_ + """' + message["content"] + '""" + close + """' }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS]""" + first + """[" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS]""" + first + """{"content": ' + content|string + ", " }}
        {%- if not message.tool_call_id is defined or message.tool_call_id|length != 9 %}
            {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
        {%- endif %}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""


MISTRAL_SMALL = """{%- set default_system_message = "You are Mistral Small 3, a Large Language Model (LLM) created by Mistral AI." %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}
        {%- set system_message = messages[0]['content'] %}
    {%- else %}
        {%- set system_message = messages[0]['content'][0]['text'] %}
    {%- endif %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = default_system_message %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if message['content'] is string %}
            {{- '[INST]' + message['content'] + '[/INST]' }}
        {%- else %}
            {{- '[INST]' }}
            {%- for block in message['content'] %}
                {%- if block['type'] == 'text' %}
                    {{- block['text'] }}
                {%- elif block['type'] in ['image', 'image_url'] %}
                    {{- '[IMG]' }}
                {%- else %}
                    {{- raise_exception('Only text and image blocks are supported in message content!') }}
                {%- endif %}
            {%- endfor %}
            {{- '[/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'system' %}
        {%- if message['content'] is string %}
            {{- '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}
        {%- else %}
            {{- '[SYSTEM_PROMPT]' + message['content'][0]['text'] + '[/SYSTEM_PROMPT]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {%- if message['content'] is string %}
            {{- message['content'] + eos_token }}
        {%- else %}
            {{- message['content'][0]['text'] + eos_token }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('Only user, system and assistant roles are supported!') }}
    {%- endif %}
{%- endfor %}"""
MISTRAL_V7 = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + '[/INST]' }}"
              "{% elif message['role'] == 'system' %}{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}"
              "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}")

DEEPSEEK_R1 = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is none %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- else %}{{'\\n' + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments'] + '\\n' + '```' + '<｜tool▁call▁end｜>'}}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor %}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}{%- if ns.is_tool %}{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"""
DEEPSEEK_V3 = ("{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages if m['role'] == 'system' %}{% set ns.system = ns.system + ('\\n\\n' if ns.system else '') + m['content'] %}{% endfor %}{{ ns.system }}"
               "{% for message in messages %}{% if message['role'] == 'user' %}{{ '<｜User｜>' + message['content'] }}{% elif message['role'] == 'assistant' and not message.get('tool_calls') %}"
               "{{ '<｜Assistant｜>' + message['content'] + eos_token }}{% elif message['role'] == 'assistant' %}{{ '<｜Assistant｜>' + (message.get('content') or '') }}{% for t in message['tool_calls'] %}"
               "{{ '<｜tool▁call▁begin｜>' ~ t['function']['name'] ~ '<｜tool▁sep｜>' ~ t['function']['arguments'] ~ '<｜tool▁call▁end｜>' }}{% endfor %}{{ eos_token }}"
               "{% elif message['role'] == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message['content'] + '<｜tool▁output▁end｜>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}")
DEEPSEEK_LLM = ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n\\n' }}"
                "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}{% elif message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
DEEPSEEK_CODER = """{% if not add_generation_prompt is defined %}
{% set add_generation_prompt = false %}
{% endif %}
{%- set ns = namespace(found=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set ns.found = true -%}
    {%- endif -%}
{%- endfor -%}
{{bos_token}}{%- if not ns.found -%}
{{'You are an AI programming assistant, utilizing the Deepseek Coder model, and you only answer questions related to computer science.\\n'}}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
{{ message['content'] }}
    {%- else %}
        {%- if message['role'] == 'user' %}
{{'### Instruction:\\n' + message['content'] + '\\n'}}
        {%- else %}
{{'### Response:\\n' + message['content'] + '\\n<|EOT|>\\n'}}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
{{'### Response:'}}
{% endif %}"""
ALPACA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + '\\n\\n' }}{% else %}{{ 'Below is an instruction that describes a task. Write a response that appropriately completes the request.\\n\\n' }}{% endif %}"
          "{% for message in messages %}{% if message['role'] == 'user' %}### Instruction:\\n{{ message['content'] | trim }}\\n\\n{% elif message['role'] == 'assistant' %}### Response:\n{{ message['content']|trim -}}{% if not loop.last %}\n\n{% endif %}{{ eos_token }}{% endif %}{% endfor %}"
          "{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}\n### Response:\n{% endif %}")
PHI3 = ("{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI3_OLD = "{{ bos_token }}{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
PHI4 = ("{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>'}}"
        "{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}")
PHI4_MINI = ("{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}"
             "{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}")
FALCON3 = ("{%- if tools %}\n{{- '<|system|>\\n' }}\n{%- if messages[0]['role'] == 'system' %}\n{{- messages[0]['content'] }}\n{%- set remaining_messages = messages[1:] %}\n{%- else %}\n{%- set remaining_messages = messages %}\n{%- endif %}\n"
           "{{- 'You are a Falcon assistant skilled in function calling. You are helpful, respectful, and concise.\\n\\n# Tools\\n\\n<tools>\\n' + tools|tojson(indent=2) + '\\n</tools>\\n' }}\n{%- for message in remaining_messages %}\n"
           "{%- if message['role'] == 'user' %}\n{{- '<|user|>\\n' + message['content'] + '\\n' }}\n{%- elif message['role'] == 'assistant' %}\n{%- if message.content %}\n{{- '<|assistant|>\\n' + message['content'] }}\n{%- endif %}\n"
           "{%- for tool_call in message.tool_calls %}\n{{- '<tool_call>' + tool_call.function|tojson + '</tool_call>' + eos_token + '\\n' }}\n{%- endfor %}\n{%- else %}\n{{- '<|' ~ message['role'] ~ '|>\\n' + message['content'] + '\\n' }}\n{%- endif %}\n{%- endfor %}\n"
           "{{- '<|assistant|>\\n' if add_generation_prompt }}\n{%- else %}\n{%- for message in messages %}\n{%- if message['role'] == 'assistant' %}\n{%- if not loop.last %}\n{{- '<|assistant|>\\n' + message['content'] + eos_token + '\\n' }}\n{%- else %}\n{{- '<|assistant|>\\n' + message['content'] + eos_token }}\n{%- endif %}\n"
           "{%- else %}\n{{- '<|' + message['role'] + '|>\\n' + message['content'] + '\\n' }}\n{%- endif %}\n{%- if loop.last and add_generation_prompt %}\n{{- '<|assistant|>\\n' }}\n{%- endif %}\n{%- endfor %}\n{%- endif %}")
FALCON = ("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{% if not loop.first %}{{ '\n\n' }}{% endif %}{% if message['role'] == 'system' %}{{ message['content'] }}"
          "{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'].replace('\r\n', '\n').replace('\n\n', '\n') }}{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\n\n' + 'Assistant:' }}{% endif %}")
OPENCHAT = "{{ bos_token }}{% for message in messages %}{{ 'GPT4 Correct ' + message['role'].title() + ': ' + message['content'] + '<|end_of_turn|>'}}{% endfor %}{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}"
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}"
         "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
VICUNA = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
          "{% set system_message = 'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' %}{% endif %}"
          "{% for message in loop_messages %}{% if loop.index0 == 0 %}{{ system_message }}{% endif %}{% if message['role'] == 'user' %}{{ ' USER: ' + message['content'].strip() }}{% elif message['role'] == 'assistant' %}{{ ' ASSISTANT: ' + message['content'].strip() + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}")
LLAVA15 = ("{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}" + IMAGES_FIRST.replace("{# Render all video then #}{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}{{ '<video>\\n' }}{% endfor %}", "") +
           "{% if message['role'] != 'assistant' %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}"
           "{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")
LLAVA_MISTRAL = ("{% for message in messages %}{% if message['role'] == 'system' %}{{ '<<SYS>>\\n' + message['content'][0]['text'] + '\\n<</SYS>>\\n\\n' }}{% elif message['role'] == 'user' %}{{ '[INST] ' }}" + IMAGES_FIRST + TEXTS +
                 "{{' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'][0]['text'] + '</s> '}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
LLAVA_INTERLEAVE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}" + IMAGES_FIRST.replace("\\n", "") +
                    "{% if message['role'] != 'assistant' %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ '\\n' + content['text'] }}{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ '\\n' + content['text'] }}{% endgeneration %}{% endfor %}{% endif %}"
                    "{{'<|im_end|>'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}")
LLAVA_OV = LLAVA_INTERLEAVE.replace("'<|im_end|>'", "'<|im_end|>\\n'").replace("'<|im_start|>assistant'", "'<|im_start|>assistant\\n'")
LLAVA_34B = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'}}" + IMAGES_FIRST + TEXTS + "{{'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
QWEN2VL = ("{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
           "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}"
           "{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}<|vision_start|><|video_pad|><|vision_end|>"
           "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
QWEN3VL = """{%- set image_count = namespace(value=0) %}
{%- set video_count = namespace(value=0) %}
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].content is string %}
        {{- messages[0].content }}
    {%- else %}
        {%- for content in messages[0].content %}
            {%- if 'text' in content %}
                {{- content.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {%- for content in message.content %}
                {%- if content.type == 'image' or 'image' in content or 'image_url' in content %}
                    {%- set image_count.value = image_count.value + 1 %}
                    {%- if add_vision_id %}Picture {{ image_count.value }}: {% endif -%}
                    <|vision_start|><|image_pad|><|vision_end|>
                {%- elif content.type == 'video' or 'video' in content %}
                    {%- set video_count.value = video_count.value + 1 %}
                    {%- if add_vision_id %}Video {{ video_count.value }}: {% endif -%}
                    <|vision_start|><|video_pad|><|vision_end|>
                {%- elif 'text' in content %}
                    {{- content.text }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {%- for content_item in message.content %}
                {%- if 'text' in content_item %}
                    {{- content_item.text }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
IDEFICS2 = "{% for message in messages %}{{message['role'].capitalize()}}{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
IDEFICS3 = "<|im_start|>" + IDEFICS2.replace("Assistant:", "Assistant:")
SMOLVLM2 = "<|im_start|>" + IDEFICS2.replace("{% elif line['type'] == 'image' %}{{ '<image>' }}", "{% elif line['type'] == 'image' %}{{ '<image>' }}{% elif line['type'] == 'video' %}{{ '<video>' }}")
COMMAND_R = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}{% set system_message = 'You are Command-R.' %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
             "{% if system_message != false %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}"
             "{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>'  + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}")
COMMAND_R_TOOLS = """{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool"
} %}
{%- if basic_type_map[json_spec.type] is defined %}
    {{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
    {{- "List[" +  json_to_python_type(json_spec.items) + "]"}}
{%- elif json_spec.type == "object" %}
    {{- "Dict[str, Any]"}}
{%- else %}
    {{- "Any" }}
{%- endif %}
{%- endmacro %}
{{- bos_token }}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|># Safety Preamble\\n## Available Tools\\nHere is a list of tools that you have available to you:\\n\\n' }}
{%- for tool in tools %}
    {%- if 'function' in tool %}
        {%- set tool = tool.function %}
    {%- endif %}
    {{- '```python\\ndef ' + tool.name + '(' }}
    {%- for param_name, param_fields in tool.parameters.properties.items() %}
        {%- if loop.index0 != 0 %}
            {{- ', '}}
        {%- endif %}
        {{- param_name + ": " }}
        {%- if not param_name in tool.parameters.required %}
            {{- 'Optional[' + json_to_python_type(param_fields) + '] = None'}}
        {%- else %}
            {{- json_to_python_type(param_fields) }}
        {%- endif %}
    {%- endfor %}
    {{- ') -> List[Dict]:\\n    \\"\\"\\"'}}
    {{- tool.description }}
    {{- '\\n    \\"\\"\\"\\n    pass\\n```' }}
    {%- if not loop.last %}{{- '\\n\\n'}}{%- endif %}
{%- endfor %}
{{- '<|END_OF_TURN_TOKEN|>'}}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + message.content + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif message.role == 'assistant' and not message.tool_calls %}
        {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + message.content + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif message.tool_calls %}
        {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + '\\nAction:\\n```json\\n[\\n' }}
        {%- for tool_call in message.tool_calls %}
            {%- if 'function' in tool_call %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '{\\n'|indent(4, true) }}
            {{- '"tool_name": "'|indent(8, true) + tool_call.name + '",\\n' }}
            {{- '"parameters": '|indent(8, true) }}
            {%- if tool_call.arguments is defined and tool_call.arguments|length > 0 %}
                {{- tool_call.arguments|tojson(indent=4)|indent(8) }}
                {{- '\\n' }}
            {%- else %}
                {{- '{}\\n' }}
            {%- endif %}
            {{- '}'|indent(4, true) }}
            {%- if not loop.last %},{%- endif %}
            {{- '\\n' }}
        {%- endfor %}
        {{- ']```<|END_OF_TURN_TOKEN|>' }}
    {%- elif message.role == 'tool' %}
        {{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>\\n' + message.content + '</results><|END_OF_TURN_TOKEN|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}"""
COMMAND_R_RAG = COMMAND_R.replace("{% if add_generation_prompt %}", "{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>' }}{% for document in documents %}{{ '\nDocument: ' }}{{ loop.index0 }}\n{% for key, value in document.items() %}{{ key }}: {{value}}\n{% endfor %}{% endfor %}{{ '</results><|END_OF_TURN_TOKEN|>' }}{% if add_generation_prompt %}")
GRANITE = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = "Knowledge Cutoff Date: April 2024.\\nYou are Granite, developed by IBM." %}
    {%- if tools and documents %}
        {%- set system_message = system_message + " You are a helpful AI assistant with access to the following tools and documents." %}
    {%- elif tools %}
        {%- set system_message = system_message + " You are a helpful AI assistant with access to the following tools." %}
    {%- elif documents %}
        {%- set system_message = system_message + " Write the response to the user's input by strictly aligning with the facts in the provided documents." %}
    {%- elif thinking %}
        {%- set system_message = system_message + " Respond to every user query in a comprehensive and detailed way. You can write down your thoughts." %}
    {%- else %}
        {%- set system_message = system_message + " You are a helpful AI assistant." %}
    {%- endif %}
    {%- if 'citations' in controls and documents %}
        {%- set system_message = system_message + ' Use the symbols <co> and </co> to indicate when a fact comes from a document.' %}
    {%- endif %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\\n' }}
{%- if tools %}
    {{- '<|start_of_role|>tools<|end_of_role|>' }}
    {{- tools | tojson(indent=4) }}
    {{- '<|end_of_text|>\\n' }}
{%- endif %}
{%- if documents %}
    {{- '<|start_of_role|>documents<|end_of_role|>' }}
    {%- for document in documents %}
        {{- 'Document ' + loop.index0 | string + '\\n' }}
        {{- document['text'] }}
        {%- if not loop.last %}
            {{- '\\n\\n'}}
        {%- else %}
            {{- '<|end_of_text|>\\n' }}
        {%- endif %}
    {%- endfor %}
{%- endif %}
{%- for message in loop_messages %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}
    {%- if loop.last and add_generation_prompt %}
        {{- '<|start_of_role|>assistant' }}
            {%- if controls %}
                {{- ' ' + controls | tojson()}}
            {%- endif %}
        {{- '<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}"""
OLMO = "{{ eos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] }}{% elif message['role'] == 'assistant' %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}"
OLMO2 = "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '\n' }}{% elif message['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"
SOLAR = "{% for message in messages %}{% if message['role'] == 'system' %}{% if message['content']%}{{'### System:\n' + message['content']+'\n\n'}}{% endif %}{% elif message['role'] == 'user' %}{{'### User:\n' + message['content']+'\n\n'}}{% elif message['role'] == 'assistant' %}{{'### Assistant:\n'  + message['content']}}{% endif %}{% if loop.last and add_generation_prompt %}{{ '### Assistant:\n' }}{% endif %}{% endfor %}"
STABLELM = "{% for message in messages %}{% if message['role'] == 'user' %}{{ '<|user|>\n' + message['content'] + '<|endoftext|>\n' }}{% elif message['role'] == 'system' %}{{ '<|system|>\n' + message['content'] + '<|endoftext|>\n' }}{% elif message['role'] == 'assistant' %}{{ '<|assistant|>\n'  + message['content'] + '<|endoftext|>\n' }}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% endfor %}"
CHATGLM4 = "[gMASK]<sop>{% for item in messages %}{% if item['tools'] is defined %}<|system|>\n{{ item['tools'] | tojson(indent=4) }}{% endif %}{% if item['content'] %}<|{{ item['role'] }}|>{{ item['metadata'] }}\n{{ item['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
EXAONE = "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '[|system|]You are EXAONE model from LG AI Research, a helpful assistant.[|endofturn|]\n' }}{% endif %}{{ '[|' + message['role'] + '|]' + message['content'] }}{% if message['role'] == 'user' %}{{ '\n' }}{% else %}{{ '[|endofturn|]\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}"
MINICPM = "{% for message in messages %}{% if message['role'] == 'user' %}{{'<用户>' + message['content'].strip() + '<AI>'}}{% else %}{{message['content'].strip()}}{% endif %}{% endfor %}"
DBRX = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% elif 'system' not in messages[0]['role'] %}{% set loop_messages = messages %}{% set system_message = 'You are DBRX, created by Databricks.' %}{% endif %}"
        "{% for message in loop_messages %}{% if loop.index0 == 0 %}{% if system_message != false %}{{ '<|im_start|>system\n' + system_message | trim + '<|im_end|>\n'}}{% endif %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}{% else %}{{ '\n' + '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}{% endif %}"
        "{% if (add_generation_prompt == true and loop.last) %}{{ '\n' + '<|im_start|>' + 'assistant' + '\n' }}{% endif %}{% endfor %}")
NEMOTRON = ("{{ '<extra_id_0>System' }}{% for message in messages %}{% if message['role'] == 'system' %}{{ '\n' + message['content'].strip() }}{% endif %}{% endfor %}{{ '\n' }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '<extra_id_1>User\n' + message['content'].strip() + '\n' }}"
            "{% elif message['role'] == 'assistant' %}{{ '<extra_id_1>Assistant\n' + message['content'].strip() + '\n' }}{% endif %}{% endfor %}{%- if add_generation_prompt %}{{ '<extra_id_1>Assistant\n' }}{%- endif %}")
SMOLLM3 = """{%- set reasoning_mode = "/think" -%}
{%- if enable_thinking is defined and not enable_thinking -%}{%- set reasoning_mode = "/no_think" -%}{%- endif -%}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}{%- set reasoning_mode = "/no_think" -%}{%- elif "/think" in system_message -%}{%- set reasoning_mode = "/think" -%}{%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "<|im_start|>system\\n" -}}
{{- "## Metadata\\n\\nReasoning Mode: " + reasoning_mode + "\\n\\n" -}}
{%- if custom_instructions -%}{{- "## Custom Instructions\\n\\n" + custom_instructions + "\\n\\n" -}}{%- endif -%}
{%- if xml_tools or tools -%}
  {{- "### Tools\\n\\n" -}}
  {%- set ns = namespace(xml_tool_string="<tools>\\n") -%}
  {%- for tool in tools[:] -%}
    {%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ "\\n" -%}
  {%- endfor -%}
  {{- ns.xml_tool_string + "</tools>\\n\\n" -}}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>" + message.role + "\\n"  + content + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if reasoning_mode == "/think" -%}
            {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == "tool" -%}
    {{ "<|im_start|>" + "user\\n"  + content + "<|im_end|>\\n" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\\n" }}{%- if reasoning_mode == "/no_think" -%}{{ "<think>\\n\\n</think>\\n" }}{%- endif -%}
{%- endif -%}"""
INTERNLM2 = "{{ bos_token }}" + chatml()
HERMES_TOOLS = """{%- macro arguments(p) -%}{%- for name, spec in p.properties|dictsort %}{{ name }}: {{ spec.type|default('any') }}{{ ', ' if not loop.last }}{%- endfor %}{%- endmacro -%}
{{- bos_token + '<|im_start|>system\\nYou are a function calling AI model.' }}
{%- for tool in tools %}
    {%- set f = tool.function if tool.type == 'function' else tool %}
    {{- '\\n' ~ f.name ~ '(' ~ arguments(f.parameters) ~ ') - ' ~ f.description }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.previtem and loop.previtem.role != 'tool' %}{{- '<|im_start|>tool\\n' }}{%- endif %}
        {{- '<tool_response>\\n' ~ message.content ~ ('\\n</tool_response>\\n' if not loop.last else '\\n</tool_response>') }}
        {%- if not loop.last and loop.nextitem.role != 'tool' %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}
    {%- elif message.tool_calls is defined %}
        {{- '<|im_start|>assistant' }}
        {%- for call in message.tool_calls %}
            {%- if call.function is defined %}{%- set call = call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n' ~ {'name': call.name, 'arguments': call.arguments}|tojson ~ '\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
JAMBA = "{{ bos_token }}{% for message in messages %}{%- if message.role == 'system' -%}{{ '<|bom|><|system|> ' ~ message.content ~ '<|eom|>' }}{%- elif message.role == 'user' -%}{{ '<|bom|><|user|> ' ~ message.content ~ '<|eom|>' }}{%- elif message.role == 'assistant' -%}{{ '<|bom|><|assistant|> ' ~ (message.content or '') ~ '<|eom|>' }}{%- endif -%}{% endfor %}{% if add_generation_prompt %}{{ '<|bom|><|assistant|>' }}{% endif %}"
AQUILA = "{%- for m in messages %}{%- if m.role == 'system' %}{{ m.content }}###{%- elif m.role == 'user' %}Human: {{ m.content }}###{%- else %}Assistant: {{ m.content }}</s>{%- endif %}{%- endfor %}{%- if add_generation_prompt %}Assistant: {%- endif %}"
DEMO = ("{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] if c['type'] == 'image' %}<image>\n{% endfor %}{% for c in m['content'] if c['type'] == 'text' %}{{ c['text'] }}{% endfor %}{% endif %}"
        "{% else %}<|assistant|>{{ m['content'] if m['content'] is string else m['content'][0]['text'] }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
GPT_OSS = """{%- macro render_tool(tool) %}{{- "// " + tool.description + "\\ntype " + tool.name + " = (_: {\\n" }}{%- for n, p in tool.parameters.properties.items() %}{{- n }}{%- if n not in (tool.parameters.required or []) %}?{%- endif %}{{- ": " + p.type + ",\\n" }}{%- endfor %}{{- "}) => any;\\n" }}{%- endmacro %}
{{- "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\\nReasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") + "\\n<|end|>" }}
{%- if messages[0].role in ["developer", "system"] %}{%- set developer_message = messages[0].content %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set developer_message = "" %}{%- set loop_messages = messages %}{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|>" }}
    {%- if developer_message %}{{- "# Instructions\\n\\n" + developer_message + "\\n\\n" }}{%- endif %}
    {%- if tools -%}{{- "# Tools\\n\\nnamespace functions {\\n" }}{%- for tool in tools %}{{- render_tool(tool.function) }}{%- endfor %}{{- "}" }}{%- endif -%}
    {{- "<|end|>" }}
{%- endif %}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "tool_calls" in message %}
            {%- set tool_call = message.tool_calls[0].function %}
            {%- if message.thinking %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
            {{- "<|start|>assistant to=functions." + tool_call.name + "<|channel|>commentary json<|message|>" + tool_call.arguments|tojson + "<|call|>" }}
            {%- set last_tool_call.name = tool_call.name %}
        {%- else %}
            {%- if message.thinking and loop.last and not add_generation_prompt %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}{%- endif %}
            {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + ("<|return|>" if loop.last and not add_generation_prompt else "<|end|>") }}
            {%- set last_tool_call.name = none %}
        {%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}{%- endif %}
        {{- "<|start|>functions." + last_tool_call.name + " to=assistant<|channel|>commentary<|message|>" + message.content|tojson + "<|end|>" }}
    {%- else -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}"""


# As Mistral Small 3.2 and Kimi K3 have it: a tool's content is written as any value is, and arguments may be an object or a text,
# which come to different texts.
ANY_CONTENT = """{{ bos_token }}{% for m in messages %}
{%- if m.role == 'user' %}[INST]{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text if p.type == 'text' else '[IMG]' }}{% endfor %}{% endif %}[/INST]
{%- elif m.role == 'tool' %}[TOOL_RESULTS]{{ m.content | string }}[/TOOL_RESULTS]
{%- else %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}
{%- set a = c.function.arguments %}{% if a is mapping %}{% for k, v in a.items() %} {{ k }}={{ v | tojson }}{% endfor %}{% else %} {{ a }}{% endif %}{% endfor %}{{ eos_token }}
{%- endif %}{% endfor %}"""


def entry(template, tokenizer, bos, eos, **more):
    return dict(template=template, tokenizer=tokenizer, tokens={k: v for k, v in dict(bos_token=bos, eos_token=eos, **more.pop("tokens", {})).items() if v}, **more)


SP = ("sp", "<s>", "</s>")
L3 = ("llama3", "<|begin_of_text|>", "<|eot_id|>")
QW = ("qwen2", None, "<|im_end|>")
DS = ("llama3", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
VISION = dict(parts=True, adds_special=True)

TEMPLATES = {
    "saccade": entry(DEMO, "qwen2", None, "<|end|>", image="<image>", **VISION),
    "zephyr": entry(ZEPHYR, *SP), "tinyllama": entry(ZEPHYR, "llama3", None, "<|end_of_text|>"),
    "deepseek-r1-distill": entry(DEEPSEEK_R1, *DS, text_arguments=True), "deepseek-v3": entry(DEEPSEEK_V3, *DS, text_arguments=True),
    "deepseek-llm": entry(DEEPSEEK_LLM, *DS), "deepseek-coder": entry(DEEPSEEK_CODER, *DS), "alpaca": entry(ALPACA, *SP),
    "phi-3": entry(PHI3, "sp", "<s>", "<|endoftext|>"), "phi-3-old": entry(PHI3_OLD, "sp", "<s>", "<|endoftext|>"), "phi-4": entry(PHI4, "qwen2", "<|endoftext|>", "<|im_end|>"),
    "phi-4-mini": entry(PHI4_MINI, "qwen2", "<|endoftext|>", "<|endoftext|>"), "falcon-3": entry(FALCON3, "qwen2", None, "<|endoftext|>"), "falcon": entry(FALCON, "qwen2", None, "<|endoftext|>"),
    "mistral-v0.1": entry(MISTRAL_V1, *SP), "mistral-v0.2": entry(mistral(" [INST] ", " [/INST]", system="first", tools=False), *SP), "mistral-v0.3": entry(mistral("[INST] ", "[/INST]", " "), *SP),
    "mistral-nemo": entry(mistral("[INST]", "[/INST]"), "llama3", "<s>", "</s>"), "mistral-v7": entry(MISTRAL_V7, "llama3", "<s>", "</s>"), "mistral-small-3": entry(MISTRAL_SMALL, "llama3", "<s>", "</s>", image="[IMG]", **VISION),
    "llama-2": entry(LLAMA2, *SP), "llama-2-default": entry(LLAMA2_DEFAULT, *SP), "llama-3": entry(LLAMA3, *L3), "llama-3.1": entry(LLAMA31, *L3), "llama-3-no-bos": entry(LLAMA3.replace("bos_token + ", ""), *L3),
    "llama-3.3": entry(LLAMA31.replace("tools_in_user_message = true", "tools_in_user_message = false"), *L3), "llama-3.2-vision": entry(LLAMA32_VISION, *L3, image="<|image|>", mixed=True, adds_special=True), "llama-4": entry(LLAMA4, "llama3", "<|begin_of_text|>", "<|eot|>", image="<|image|>", **VISION),
    "qwen-1.5": entry(chatml("You are a helpful assistant"), *QW), "qwen-2": entry(chatml("You are a helpful assistant."), *QW), "qwen-2.5": entry(qwen_tools("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), *QW),
    "qwen-2.5-math": entry(qwen_tools("Please reason step by step, and put your final answer within \\\\boxed{}."), *QW), "qwen-french": entry(chatml("You are a helpful assistant. Answer in French."), *QW),
    "qwq-preview": entry(qwen_tools("You are a helpful and harmless assistant. You are Qwen developed by Alibaba. You should think step-by-step."), *QW), "qwq": entry(qwen_tools("", "<think>\\n"), *QW), "qwen-3": entry(QWEN3, *QW),
    "qwen-3-thinking": entry(QWEN3[:QWEN3.index("    {%- if enable_thinking is")].rstrip().replace("{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}") + "\n{%- endif %}", *QW),
    "qwen-2-vl": entry(QWEN2VL, *QW, image="<|image_pad|>", video="<|video_pad|>", **VISION), "qwen-2.5-vl-tools": entry(qwen_tools("You are a helpful assistant."), *QW), "qwen-3-vl": entry(QWEN3VL, *QW, image="<|image_pad|>", video="<|video_pad|>", **VISION),
    "hermes-bos": entry(chatml(bos=True), "llama3", "<|begin_of_text|>", "<|im_end|>"), "hermes-2-pro": entry({"default": chatml(bos=True), "tool_use": HERMES_TOOLS}, "sp", "<s>", "<|im_end|>"), "openhermes": entry(chatml(), "sp", "<s>", "<|im_end|>"),
    "dolphin": entry(chatml("You are Dolphin, a helpful AI assistant."), "sp", "<s>", "<|im_end|>"), "chatml-trim": entry(chatml(trim=True), *QW), "internlm-2": entry(INTERNLM2, "sp", "<s>", "</s>"), "openchat": entry(OPENCHAT, "sp", "<s>", "<|end_of_turn|>"),
    "yi": entry(chatml(), "sp", None, "<|im_end|>"), "yi-1.5": entry("{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}{% if system_message is defined %}{{ system_message }}{% endif %}{% for message in messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|im_start|>user\\n' + content + '<|im_end|>\\n<|im_start|>assistant\\n' }}{% elif message['role'] == 'assistant' %}{{ content + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}", "sp", None, "<|im_end|>"),
    "gemma": entry(GEMMA, "sp", "<bos>", "<eos>"), "gemma-3": entry(GEMMA3, "sp", "<bos>", "<eos>", image="<start_of_image>", **VISION), "vicuna": entry(VICUNA, *SP),
    "llava-1.5": entry(LLAVA15, *SP, image="<image>", **VISION), "llava-1.6-mistral": entry(LLAVA_MISTRAL, *SP, image="<image>", **VISION), "llava-1.6-34b": entry(LLAVA_34B, "sp", "<|startoftext|>", "<|im_end|>", image="<image>", **VISION),
    "llava-interleave": entry(LLAVA_INTERLEAVE, *QW, image="<image>", video="<video>", **VISION), "llava-onevision": entry(LLAVA_OV, *QW, image="<image>", video="<video>", **VISION),
    "idefics-2": entry(IDEFICS2, *SP, image="<image>", **VISION), "idefics-3": entry(IDEFICS3, "llama3", "<|begin_of_text|>", "<|end_of_text|>", image="<image>", **VISION), "smolvlm-2": entry(SMOLVLM2, "qwen2", "<|im_start|>", "<end_of_utterance>", image="<image>", video="<video>", **VISION),
    "smollm-2": entry(chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"), "qwen2", "<|im_start|>", "<|im_end|>"), "smollm-3": entry(SMOLLM3, *QW),
    "command-r": entry({"default": COMMAND_R, "tool_use": COMMAND_R_TOOLS, "rag": COMMAND_R_RAG}, "llama3", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"), "command-r-rag": entry(COMMAND_R_RAG, "llama3", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "granite-3": entry(GRANITE, "qwen2", "<|end_of_text|>", "<|end_of_text|>"), "olmo": entry(OLMO, "qwen2", None, "<|endoftext|>"), "olmo-2": entry(OLMO2, "qwen2", "<|endoftext|>", "<|endoftext|>"), "solar": entry(SOLAR, *SP), "stablelm": entry(STABLELM, "qwen2", None, "<|endoftext|>"),
    "chatglm-4": entry(CHATGLM4, "qwen2", None, "<|endoftext|>"), "exaone": entry(EXAONE, "qwen2", "[BOS]", "[|endofturn|]"), "minicpm": entry(MINICPM, *SP), "dbrx": entry(DBRX, "qwen2", "<|endoftext|>", "<|endoftext|>"), "nemotron": entry(NEMOTRON, *SP), "jamba": entry(JAMBA, "sp", "<|startoftext|>", "<|endoftext|>"),
    "aquila": entry(AQUILA, *SP), "gpt-oss": entry(GPT_OSS, "qwen2", "<|startoftext|>", "<|return|>"),
    "any-content": entry(ANY_CONTENT, "llama3", "<|begin_of_text|>", "<|eot_id|>", image="[IMG]", mixed=True, adds_special=True),
}
