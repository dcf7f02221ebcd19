"""Chat templates written by hand: what random ones once showed to differ from Jinja2, and its neighbours. They are cases of
tests/golden/templates.json (compare_templates.py --golden); variables are those of template_maker.variables."""

CASES = r"""
{{ xs.append }}|
{{ xs.append is defined }}
{{ s.__class__ }}|
{% macro m() %}{% endmacro %}{{ m }}{{ m.arguments }}
{{ loop }}
{{ d.keys() == d.keys() }}
{{ d.items() == d.items() }}
{{ [none,none]|sort }}
{{ xs|map('upper')|reverse }}
{{ (xs|map('upper')|reverse)|length }}
{% macro m() %}{{ caller }}{% endmacro %}{% call m() %}{% endcall %}
{{ dict.fromkeys(xs) }}
{{ n.real }}
{{ s.format_map(d) }} {{ '{k}'.format_map(d) }}
{{ 'a'|tojson(indent=missing) }}
{{ xs|batch(missing)|list }}
{{ xs|batch(0)|list }}
{{ xs|batch(2.0)|list }}
{{ xs|batch('a')|list }}
{{ xs|batch(none,'x')|list }}
{{ xs|slice(-2)|list }}
{{ xs|slice(0)|list }}
{{ xs|slice(2.0)|list }}
{{ xs|slice(true)|list }}
{% set q = mixed|map('abs') %}x
{{ mixed|map('abs')|first }}
{% for x in mixed|map('abs') %}{{ x }}{% break %}{% endfor %}
{% set q = mixed|map('nofilter') %}x
{% set q = mixed|select('notest') %}x
{% set q = n|map('upper') %}x
{% set q = n|items %}x
{% set q = n|unique %}x
{% set q = n|batch(2) %}x
{% set q = n|slice(2) %}x
{% set q = n|reverse %}x
{{ n|first }}
{{ [[],1]|unique|first }}
{% for a, b in rows if a > 1 %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}
{% for a, b in rows if a > 0 %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}
{% for a, (b) in rows if a > 0 %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}
{% set ns = namespace(a=true) %}{% for x in xs if ns.a %}{{ loop.index }}{% set ns.a = false %}{% endfor %}
{% for x in xs|map('upper') %}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% endfor %}
{% for x in xs %}{{ loop|length }}{{ loop }}{% endfor %}
{% for x in xs %}{{ loop|list|length }}{% endfor %}
{{ range(3).start }} {{ range(3).count(1) }}
{{ '٣'|int }} {{ '１２'|float }}
{{ range(k)|list ~ s }}
{{ 'urlize' is filter }}
{{ 5|tojson(separators=',:') }}
{{ xs|tojson(separators=',:') }}
{{ xs|tojson(indent=100)|length }}
{{ mixed|sort }}
{{ [1,1.0]|sort(attribute='a,b') }}
{{ messages|map(attribute=none)|list }}
{{ messages|map(attribute=missing)|list }}
{{ messages|sort(attribute=missing)|list }}
{{ {(1,[2]):3} }}
{{ d.get((1,[2])) }}
{{ (1,[2]) in d }}
{{ d[(1,[2])] }}
{{ d.keys() in d }}
{{ 'x' in xs|map('upper') }}
{{ n.bit_length() }}
{{ f.is_integer() }}
{{ xs|sum(start=missing) }}
{{ []|sum(start=missing) }}
{{ d.k() }}
{{ xs|join(attribute='x') }}
{{ xs|join(d=',') }}
{{ (xs,)|list }}
{{ xs|map('join', ',')|list }}
{{ xs|sort('a') }}
{{ d|dictsort(reverse='a') }}
{{ missing|attr('x') }}
{{ d.keys() < d.keys() }}
{{ d.keys() <= {'k':1,'j':2}.keys() }}
{{ [n, 'x']|tojson(indent=missing) }}
{{ '%s' % missing }}|{{ '%d' % missing }}
{{ ('<b>'|safe).split('b') }}
{{ ('<b>'|safe).partition('b') }}
{{ ('a<b>'|e).splitlines() }}
{{ ('a b'|safe)|map('upper')|list }}
{{ ('a b'|safe)|list }}
{{ ('a b'|safe)[0] }} {{ [('a b'|safe)[0]] }}
{{ [('a b'|safe)[::-1]] }} {{ [('ab'|safe)|reverse] }}
{{ [('ab'|safe)*2] }}{{ [('ab'|safe) + '<'] }}{{ ['<' + ('ab'|safe)] }}
{{ [('%s'|safe) % '<'] }} {{ [('{}'|safe).format('<')] }}
{{ [('ab'|safe).join(['<', 'x'|safe])] }}
{{ [(' ab'|safe)|trim] }}{{ [('ab'|safe)|upper] }}{{ [('ab'|safe)|replace('a','<')] }}
{{ [('ab'|safe).replace('a','<')] }}{{ [('ab'|safe)|title] }}{{ [('ab'|safe)|center(5)] }}{{ [('ab'|safe)|capitalize] }}
{{ [('ab'|safe)|string] }}{{ [('ab'|safe)|default('x')] }}{{ [('a\nb'|safe)|indent] }}
{{ [('ab'|safe)|first, ('ab'|safe)|last, ('ab'|safe)|max] }}
{{ [['a'|safe, 'b']|join('<')] }}{{ [['a', 'b']|join('<'|safe)] }}
{{ [('ab'|safe)|format] }}{{ [('a%s'|safe)|format('<')] }}
{{ [('ab'|safe) ~ '<'] }}{{ ['<' ~ ('ab'|safe)] }}
{{ [('ab'|safe)|tojson] }}{{ [('ab'|safe)|int, ('12'|safe)|int] }}
{{ ('a'|safe) == 'a' }}{{ ('a'|safe) in ['a'] }}{{ {'a': 1}[('a'|safe)] }}
{{ [('aB'|safe).swapcase(), ('aB'|safe).zfill(5), ('aB'|safe).ljust(4, '<'), ('a<'|safe).strip('<'), ('a'|safe).expandtabs()] }}
{{ [('aB'|safe).casefold(), ('aB'|safe).removeprefix('a'), ('aB'|safe).rsplit('B'), ('aB'|safe).format_map({})] }}
{{ [('aB'|safe)|list, ('ab'|safe)|sort, ('ab'|safe)|unique|list, ('ab'|safe)|batch(1)|list] }}
{{ '<' in ('a<'|safe) }}{{ [('a'|safe)|escape, ('<'|e|forceescape)] }}
{{ dict([('a'|safe, 1)]) }}{{ [('a'|safe, 1)]|tojson }}
{{ ('x'|safe) is sameas ('x'|safe) }} {{ s is sameas s }} {{ xs is sameas xs }} {{ [] is sameas [] }} {{ () is sameas () }} {{ none is sameas none }} {{ 1.5 is sameas 1.5 }} {{ n is sameas n }}
{% with a = 1, b = a %}{{ b }}{% endwith %}
{% with loop = 1 %}{{ loop }}{% endwith %}
{% for x in xs %}{% with loop = 1 %}{{ loop }}{% endwith %}{{ loop.index }}{% endfor %}
{% for x in xs %}{% with q = loop.index %}{{ q }}{% endwith %}{% endfor %}
{% set x %}{% endset %}[{{ x }}]{{ x is none }}
{% macro m(a, b='q') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,c=4) }}{{ m(b=1) }}{{ m.arguments }}{{ m.catch_kwargs }}
{% for k, v in d.items() %}{{ loop.index }}{{ k }}{{ v }}{% endfor %}
{{ x }}{% if false %}{% set x = 1 %}{% endif %}{{ x }}
{{ 'a' if missing else 'b' }}{{ not missing }}{{ missing or 'c' }}
{{ [1,2,3][missing:] }}
{{ xs[missing] }}
{{ s * missing }}
{{ range(3)[1:] }} {{ range(10)[::-2] }}
{{ (1,2) + (3,) }} {{ (1,2) * 2 }} {{ [1] + (2,) }}
{{ 10 / 4 }} {{ 10 / 5 }} {{ 1e22 }} {{ 1e-5 }} {{ 123456789012345678.0 }} {{ 0.1 + 0.2 }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 + 2 ~ 3 }} {{ 'a' ~ 1 + 2 }}
{{ 'abc'.find('b', missing) }}
{{ 'abc'.split(none, 1) }} {{ 'a b c'.split(maxsplit=1) }}
{{ 'a'.center(none) }}
{{ 'a,b'.split(',', none) }}
{{ true + 1 }} {{ true|int }} {{ true|string }} {{ [true]|tojson }} {{ true * 3 }} {{ -true }} {{ true / 2 }}
{{ 'abc'|batch(2)|list }} {{ 'abcd'|slice(3)|list }} {{ xs|slice(3, 'z')|list }}
{{ [1, 'a', none]|map('string')|join }}
{{ messages|groupby('role')|map(attribute='grouper')|list }} {{ messages|groupby('role')|map(attribute='list')|list }}
{% for g in messages|groupby('role') %}{{ g.grouper }}{{ g.list|length }}{{ g[0] }}{% endfor %}
{{ messages|groupby('role')|first }}
{{ (messages|groupby('role'))[0].count('user') }} {{ (messages|groupby('role'))[0]._fields }}
{% for x in xs %}{% with loop = 1 %}{{ loop }}{% endwith %}{{ loop.index }}{% endfor %}
{% for x in xs %}{% set loop = 1 %}{% endfor %}
{% for x in xs %}{% for loop in xs %}{% endfor %}{% endfor %}
{% for x in xs %}{% set loop %}{% endset %}{% endfor %}
{% for x in xs %}{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(2) }}{% endfor %}
{% for x in xs %}{% macro loop() %}{% endmacro %}{% endfor %}
{% for loop in xs %}{% endfor %}
{% set loop = 3 %}{{ loop }}{% for x in xs %}{{ loop }}{% endfor %}
{% macro m() %}{% set caller = 1 %}{{ caller }}{% endmacro %}{{ m() }}
{% macro m() %}{{ caller }}{% set caller = 1 %}{% endmacro %}{{ m() }}
{% macro m() %}{% for kwargs in xs %}{{ kwargs }}{% endfor %}{% endmacro %}{{ m() }}{{ m(a=1) }}
{% macro m() %}{% set varargs = 1 %}{% endmacro %}{{ m(1) }}
{% macro m() %}{% if varargs is defined %}{{ varargs }}{% endif %}{% endmacro %}{{ m(1) }}
{% for x in xs if loop %}{{ x }}{% endfor %}
{% for x in xs %}{% for y in xs if loop.first %}{{ y }}{% endfor %}{% endfor %}
{% for x in xs recursive %}{{ x }}{% for y in [1] %}{{ loop.index }}{% endfor %}{% endfor %}
{% for x in xs %}{% for y in [1] %}{{ x }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in xs %}{% set q = loop %}{% for y in [1] %}{{ q.index }}{% endfor %}{% endfor %}
{% for x in xs %}{% filter replace('q', loop.index|string) %}q{% endfilter %}{% endfor %}
{% for x in xs %}{% filter replace('q', loop.index|string) %}{% with loop = 1 %}q{% endwith %}{% endfilter %}{% endfor %}
{% call(loop) dict() %}{% endcall %}
{% macro m(x) %}{{ caller(x) }}{% endmacro %}{% for x in xs %}{% call(loop) m(loop.index) %}{{ loop }}{% endcall %}{% endfor %}
{% macro m(x) %}{{ caller(x) }}{% endmacro %}{% for x in xs %}{% call(q) m(loop.index) %}{{ q }}{{ loop.index }}{% endcall %}{% endfor %}
{#
{#-
a {#
{# 
{#a
{% raw %}
{% raw -%}
{% raw %}a
{%
{{
{{-
{%-
x{% raw
{{ ((rows|map)|rejectattr)|list }}
{{ (rows|select('nope'))|map|list }}
{{ ([1]|reject)|map(attribute='a', zz=1)|list }}
{{ ([1]|reject)|selectattr|list }}
{{ []|map|list }}
{{ []|selectattr|list }}
{{ (()[]).__class__ }}
{{ d.keys() in d.keys() }}{{ ('k', 1) in d.items() }}
{{ ([1], 2) in d.items() }}
""".strip().split("\n")
