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
{{ '%5.1f|%-8s|%+d|%x|%o|%e|%g|%%|%c|%r|%a' % (3.14159, 'ab', 5, 255, 8, 12345.678, 0.0001, 'z', 'q', 'é') }}
{{ '{:>8}|{:<8}|{:^8}|{:08.3f}|{:,}|{:_}|{:+}|{:e}|{:%}|{!r}'.format('a', 'b', 'c', 3.14159, 1234567, 1234567, 5, 12345.678, 0.25, 'q') }}
{{ '{0[role]} {0.role} {a} {b[0]}'.format(messages[0], a=1, b=[5]) }}
{{ 'a'.join(['x', 1]) }}
{{ ['a', 1, none, 1.5, true]|join('-') }}
{{ {'a': [1, 2.0, none, true, 'é"\\\n']}|tojson }}{{ {'a': [1, {'b': []}], 'c': {}}|tojson(indent=2) }}
{{ {1: 2, 1.5: 3, true: 4, none: 5}|tojson }}
{{ {'b': 1, 'a': 2}|tojson(sort_keys=true, separators=(',', ':')) }}
{{ 'é\u2028\x7f'|tojson }}{{ 'é😀'|tojson(ensure_ascii=true) }}
{{ 1e400 }}{{ -1e400 }}{{ (1e400 - 1e400) }}
{{ 3.0|tojson }}{{ 1e16|tojson }}{{ 1e-7|tojson }}{{ 100000000000000000000.0|string }}
{{ 3.7|int }}{{ -3.7|int }}{{ '3.7'|int }}{{ 'x'|int(9) }}{{ '0b11'|int(0, 2) }}{{ '0o17'|int(base=8) }}{{ ' 12 '|int }}{{ '1_000'|int }}{{ ''|int }}
{{ 2.5|round }}{{ 3.5|round }}{{ 2.675|round(2) }}{{ 1234|round(-2) }}{{ 2.1|round(0, 'ceil') }}{{ -2.1|round(1, 'floor') }}{{ 5|round(1) }}
{{ 'hello world foo'|title }}{{ "it's a-b (c) d.e"|title }}{{ "it's"|capitalize }}{{ "it's a".title() }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb\n\nc\n'|indent(2, true, true) }}|{{ 'a\r\nb'|indent('> ') }}
{{ 'abc'|replace('', '-') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 'abc'.replace('', '-', 2) }}
{{ [3,1,2]|sort|first }}{{ ['b','A','a','B']|sort }}{{ ['b','A','a','B']|sort(case_sensitive=true, reverse=true) }}
{{ [{'a': {'b': 2}}, {'a': {'b': 1}}]|sort(attribute='a.b') }}{{ [[2,'x'],[1,'y']]|sort(attribute='1') }}{{ [[2,'x'],[1,'y']]|sort(attribute=0) }}
{{ ['a','A','b']|unique|list }}{{ ['a','A','b']|unique(true)|list }}{{ [1,1.0,true]|unique|list }}
{{ [1,2,3]|sum }}{{ [[1],[2]]|sum(start=[]) }}{{ [{'a':1},{'a':2}]|sum('a') }}{{ [{'a':1},{'a':2}]|sum(attribute='a', start=10) }}{{ [0.1]*3|sum }}
{{ [1,2,3,4]|select('odd')|list }}{{ [1,2,3,4]|reject('divisibleby', 2)|list }}{{ ['a',none]|select|list }}{{ messages|selectattr('role')|list|length }}
{{ d|dictsort }}{{ {'b':1,'A':2}|dictsort }}{{ {'b':1,'A':2}|dictsort(true) }}{{ {'b':1,'A':2}|dictsort(false,'value',true) }}
{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-1] }}{{ 'abcdef'[-3:] }}{{ 'abcdef'[10:] }}{{ 'é😀x'[1] }}{{ 'é😀x'[-1:] }}{{ [1,2,3][-1] }}{{ [1,2][5] is defined }}
{% set ns = namespace(a=1, b={'c': 2}) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}{{ ns.b.c }}{{ ns }}{{ ns.zz is defined }}
{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{{ loop.revindex }}{% endfor %}{{ loop.cycle('a','b') }}{{ loop.first }}{{ loop.last }}{% else %}no{% endfor %}
{% for i in [] %}x{% else %}{{ i is defined }}{% endfor %}{% for i in [1,2,3] if i > 5 %}{% else %}none{% endfor %}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{%- set x = 'a' -%} {{ x }} {%+ if true %} y {%- endif %} z
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}{% set e = (1, 2) %}{{ e }}{% set f2 = 1, %}{{ f2 }}
{% macro m(a, b=a ~ 'x', c=b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m('1') }}{{ m('1', '2') }}{{ m('1', c='3') }}{{ m() }}
{% macro outer() %}{% macro inner() %}{{ caller is defined }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}
{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}{% for i in [1] %}{% set x = 3 %}{{ m() }}{{ x }}{% endfor %}{{ x }}
{{ namespace(x=1).x }}{{ dict(a=1, **{'b': 2}) }}{{ dict([('a', 1)], b=2) }}{{ {'a': 1, 'a': 2} }}
{{ 'a' in 'abc' }}{{ 'a' not in ['b'] }}{{ 1 in {1: 2} }}{{ none in [none] }}{{ [] in [[]] }}{{ 1 == 1.0 }}{{ true == 1 }}{{ '1' == 1 }}{{ [1] == (1,) }}{{ {'a':1} == {'a':1.0} }}
{{ 1 < 2 }}{{ 'a' < 'b' }}{{ [1,2] < [1,3] }}{{ (1,) < (1,2) }}{{ not (1 > 2) }}{{ 1 if 0 else 2 }}{{ none or 'x' }}{{ [] and 1 }}{{ 'x' and 'y' }}
{{ 5 is divisibleby 5 }}{{ 3 is odd }}{{ 'A' is upper }}{{ 'a' is lower }}{{ x is undefined }}{{ none is none }}{{ 1 is number }}{{ true is boolean }}{{ 1.0 is float }}{{ 1 is integer }}{{ {} is mapping }}{{ [] is sequence }}{{ 'a' is string }}{{ [] is iterable }}{{ m is callable }}{{ 1 is eq 1 }}{{ 1 is in [1] }}
{{ messages|map(attribute='content')|join(', ') }}{{ messages|map('attr', 'role')|list }}{{ ['a']|map('upper')|list }}{{ [[1,2]]|map('first')|list }}{{ messages|map(attribute='zz', default='q')|join }}
{{ strftime_now('%Y') }}{{ strftime_now('') }}{{ strftime_now('%d %B %Y, %H:%M') }}
{% raw %}{{ x }}{% endraw %}{# c #}{{ '{{' }}{{ "}}" }}
{{ 'x' ~ none ~ true ~ 1.0 ~ [] ~ {} }}
{{ s.missing.x }}
{{ raise_exception('bad') }}
{{ 'abc'.title().upper().lower().split('b')[0].strip() }}
{{ 'a b'.split(' ', 0) }}{{ ' a  b '.split() }}{{ 'a,b'.partition(',') }}{{ 'x'.rpartition(',') }}{{ 'a\nb\r\nc'.splitlines() }}{{ 'abc'.rsplit('b') }}
{{ 'ABC'.swapcase() }}{{ 'abc'.center(7, '*') }}{{ 'abc'.zfill(5) }}{{ '-5'.zfill(4) }}{{ 'a\tb'.expandtabs(4) }}{{ 'ß'.upper() }}{{ 'ǆ'.title() }}{{ 'ΑΣ'.lower() }}
{{ '12'.isdigit() }}{{ '½'.isnumeric() }}{{ 'Ⅷ'.isalnum() }}{{ '三'.isnumeric() }}{{ '²'.isdecimal() }}{{ 'é'.isascii() }}{{ 'a1'.isidentifier() }}{{ 'A b'.istitle() }}
{{ (1, 2, 3)[1:] }}{{ (1, 2).index(2) }}{{ [1, 2, 1].count(1) }}{{ [1, 2, 3].index(3, 1) }}{{ d.get('zz', 5) }}{{ d.items()|list }}{{ d.values()|list }}{{ d.copy() }}
{% if false %}{{ x|nof }}{% endif %}ok
{% if false %}{% for x in xs %}{{ x|nof }}{% endfor %}{% endif %}
{% if false %}{% set q = x|nof %}{% endif %}ok
{% if false %}{% set q | nof %}a{% endset %}{% endif %}ok
{% if false %}{% filter nof %}a{% endfilter %}{% endif %}ok
{% if false %}{% macro m(a=x|nof) %}{% endmacro %}{% endif %}ok
{% if false %}{% with a = x|nof %}{% endwith %}{% endif %}ok
{% if x|nof %}{% endif %}ok
{% if true %}{% elif x|nof %}{% endif %}ok
{{ 1 if true else x|nof }}
{{ (x|nof) if false }}ok
{{ true or x|nof }}
{{ 1 is not nofest }}
{% if false %}{{ 1 is nofest }}{% endif %}ok
{{ x|map('nof')|list }}
{% for x in xs if x|nof %}{% endfor %}
{% for x in [] if x|nof %}{% endfor %}
{% for x in xs|nof %}{% endfor %}
{{ 'a'|upper|nof }}
{% macro m() %}{{ x|nof }}{% endmacro %}
{% set x %}{{ y|nof }}{% endset %}
{% generation %}{{ x|nof }}{% endgeneration %}
{% call m() %}{{ x|nof }}{% endcall %}
{% if false %}{% call m(x|nof) %}{% endcall %}{% endif %}ok
{{ 1.5.x is defined }}
{{ xs[0:1][0] }}{{ xs[-1:] }}{{ xs['a'] is defined }}{{ xs[none] is defined }}{{ xs[1.0] is defined }}{{ xs[true] }}
{{ (xs)[0] }}{{ [1,2][0] }}{{ {'a':1}.a }}{{ 'abc'[0] }}{{ ('a','b')[1] }}{{ 'x'.upper()[0] }}
{{ not true }}{{ -1 }}{{ +1 }}{{ - 1 }}{{ --1 }}{{ not not 1 }}
{{ -xs|length }}{{ -1|abs }}{{ 2**-1 }}{{ -2**2 }}{{ (-2)**2 }}
{{ 1 if true }}{{ 1 if false else 2 if false else 3 }}
{{ 'a' 'b' }}{{ 'a' ~ 'b' 'c' }}
{{ 1 == 1 == 1 }}{{ 1 < 2 > 1 }}{{ 1 in [1] == true }}
{{ [1,2,] }}{{ (1,) }}{{ () }}{{ {} }}{{ {'a':1,} }}{{ [] }}
{{ 1,2 }}{{ (1,2) }}
{{ x is defined and x }}{{ x is not defined or x }}
{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}
{{ xs is sameas xs }}{{ xs is in [xs] }}
{{ 5 is divisibleby(5) and 4 is even }}{{ 1 is odd is true }}
{{ 1 is not odd }}{{ not 1 is odd }}
{{ 'a' is in 'abc' }}{{ 'a' is not in ['b'] }}
{{ loop is defined }}{% for x in xs %}{{ loop is defined }}{% endfor %}
{% for x in xs -%}  a  {%- endfor %}
{% for x in xs %}
  {{ x }}
{% endfor %}
  {% if true %}a{% endif %}  
{% if true -%} a {%- endif %} b
{%- if true %}a{% endif -%} b
a {{- 's' -}} b
a {#- c -#} b
{%+ if true %}a{%+ endif %}
{{ 1_000 }}{{ 0x1F }}{{ 0b11 }}{{ 0o17 }}{{ 1e3 }}{{ 1.5e-3 }}{{ 1_0.5 }}
{{ 1. }}
{{ .5 }}
{{ 0x }}
{{ 1__0 }}
{{ 01 }}
{{ "a\"b" }}{{ 'a\'b' }}{{ 'a\\b' }}{{ '\x41\u0042\n\t' }}{{ '\101' }}{{ '\N{DASH}' }}
{{ "\z" }}{{ '\x4' }}
{{ a.b.c }}
{{ a.b }}
{{ d.a.b is defined }}
{{ d.a is defined }}{{ (d.a).b }}
{{ x() }}
{{ d() }}{{ 1() }}
{% set d.x = 1 %}
{% set xs[0] = 1 %}
{% set 1 = 1 %}
{% set true = 1 %}
{% for true in xs %}{% endfor %}
{% set (a) = 1 %}{{ a }}
{% set a, = [1] %}{{ a }}
{% set a, b = [1] %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(true) %}{% endmacro %}
{% macro true() %}{% endmacro %}
{{ m(a=1, a=2) }}
{{ dict(a=1, *[], b=2) }}
{{ dict(**{'a':1}, b=2) }}
{{ dict(*[[('a', 1)]], **{'b': 2}) }}
{{ dict(**d, **d) }}
{% call m %}{% endcall %}
{% call 1 %}{% endcall %}
{% if %}{% endif %}
{% for x %}{% endfor %}
{% for x in %}{% endfor %}
{% else %}
{% endif %}
{% if true %}{% endfor %}
{% set %}
{% set x %}
{% with %}a{% endwith %}
{% with a %}{% endwith %}
{% with a = 1, %}{% endwith %}
{% print 1, 2 %}
{% print %}
{% break %}
{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in xs %}{% if true %}{% break %}{% endif %}{% else %}{% break %}{% endfor %}
{% for y in xs %}{% for x in xs %}{% else %}{% break %}{% endfor %}{{ y }}{% endfor %}
{% for y in xs %}{% for x in [] %}{% else %}{% break %}{% endfor %}{{ y }}{% endfor %}
{% for y in xs %}{% set q %}{% break %}{% endset %}{{ y }}{% endfor %}|
{% for y in xs %}{% filter upper %}a{% continue %}{% endfilter %}{{ y }}{% endfor %}|
{% for y in xs %}{% call m() %}{% break %}{% endcall %}{% endfor %}
{% for y in xs recursive %}{% break %}{% endfor %}
{% for y in xs recursive %}a{% else %}{% break %}{% endfor %}
{{ 'a' if }}
{{ a b }}
{{ a, }}
{{ , }}
{{ ) }}
{{ ( }}
{{ [1 }}
{{ {1} }}
{{ {1:2 }}
{{ x | }}
{{ x is }}
{{ x. }}
{{ x.1a }}
{{ x[1:2:3:4] }}
{{ xs[1:2, 3] }}
{{ xs[:] }}{{ xs[::] }}{{ xs[::1] }}
{{ 1 ? 2 }}
{{ a; b }}
{{ a := 1 }}
{{ x = 1 }}
{{ "abc }}
{{ $ }}
{{ é }}{% set é = 1 %}{{ é }}
{{ _x }}{% set _x = 1 %}{{ _x }}
{% set ns = namespace(_a=1) %}
{% set ns = namespace() %}{% set ns._a = 1 %}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}
{% set ns = namespace() %}{{ ns.items }}{{ ns.x is defined }}
{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call(x) m('1') %}{{ x }}{% endcall %}
{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}
{% macro m() %}{{ caller(b=2) }}{% endmacro %}{% call(a=1, b=3) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}{{ caller.name }}{{ caller.arguments }}{{ caller.caller }}{% endmacro %}{% call(a) m() %}{% endcall %}
{% macro m() %}{{ m.name }}{{ m.caller }}{{ m.explicit_caller }}{{ m.catch_varargs }}{{ m.zz is defined }}{% endmacro %}{{ m() }}
{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro m(caller='x') %}{{ caller }}{% endmacro %}{{ m() }}{{ m('y') }}{% call m() %}z{% endcall %}
{% macro m(caller) %}{{ caller }}{% endmacro %}
{% macro m(caller) %}a{% endmacro %}{{ m(1) }}
{% macro m(varargs) %}{{ varargs }}{% endmacro %}{{ m(1) }}
{% macro m(kwargs=2) %}{{ kwargs }}{% endmacro %}{{ m() }}{{ m(kwargs=3) }}
{% macro m(a) %}{{ kwargs }}{{ varargs }}{% endmacro %}{{ m(1, 2, b=3) }}{{ m(b=3) }}{{ m(a=4) }}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{{ self }}{% endmacro %}
{% set m = 1 %}{% macro m() %}x{% endmacro %}{{ m() }}
{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}
{% if true %}{% macro m() %}q{% endmacro %}{% endif %}{{ m() }}
{% set ns = namespace(l=none) %}{% for x in xs %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}{{ ns.l.last }}{{ ns.l.nextitem is defined }}{{ ns.l }}
{% for x in xs %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.changed(x) }}{{ loop.changed(1) }}{% endfor %}
{% for x in 'abc' %}{{ x }}{{ loop.length }}{% endfor %}{% for x in d %}{{ x }}{% endfor %}{% for x in missing %}{{ x }}{% else %}e{% endfor %}
{% for x in none %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for k in {'a': 1, 'b': 2} if k != 'a' %}{{ k }}{{ loop.index }}{{ loop.length }}{% endfor %}
{% for x in recursive %}{{ x }}{% else %}none{% endfor %}
{% for x in [1], recursive %}{{ x }}{% endfor %}
{% for x in [1],[2] recursive %}{{ x }}{% endfor %}
{% for x, in [[1]] %}{{ x }}{% endfor %}
{% for x in [[1,[2]]] recursive %}{{ loop(x) if x is sequence else x }}{{ loop.depth }}{% endfor %}
{% for x in xs recursive %}{{ loop(iterable=[]) }}{% endfor %}
{% for x in xs %}{{ loop([1]) }}{% endfor %}
{% for x in [1,2] %}{% for y in [3] recursive %}{{ x }}{{ y }}{{ z }}{% endfor %}{% set z = 1 %}{% endfor %}
{% set a = 1 %}{% for x in [1] %}{{ a }}{% set a = 2 %}{{ a }}{% endfor %}{{ a }}
{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}
{% set a = 1 %}{% with %}{% set a = 2 %}{{ a }}{% endwith %}{{ a }}
{% with a = 1, b = a %}{{ b }}{% endwith %}{% with a = 1 %}{% with b = a %}{{ b }}{% endwith %}{% endwith %}
{% set a %}x{% set b = 1 %}{% endset %}{{ b is defined }}{{ a }}
{% filter upper %}{% set b = 'q' %}{{ b }}{% endfilter %}{{ b is defined }}
{% generation %}{% set b = 'q' %}{{ b }}{{ s }}{% endgeneration %}{{ b is defined }}
{% set s = 'new' %}{{ s }}{% macro m() %}{{ s }}{{ t }}{% endmacro %}{{ m() }}{% set t = 'u' %}{{ m() }}
{% set q = 'new' %}{% macro m(q=q) %}{{ q }}{% endmacro %}{{ m() }}
{% macro m(a=b, b=1) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}
{% for x in [1,2] %}{% if loop.first %}{% set y = 'f' %}{% endif %}{{ y }}{% endfor %}
{% for x in [1,2] %}{{ y }}{% set y = x %}{% endfor %}
{% set y = 0 %}{% for x in [1,2] %}{{ y }}{% set y = x %}{% endfor %}{{ y }}
{{ y }}{% for y in [1] %}{{ y }}{% endfor %}{{ y }}{% set y = 2 %}{{ y }}
{% for s in xs %}{{ s }}{% endfor %}{{ s }}
{% for x, y in d.items() %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}
{% set x = [1,2] %}{% set x = x + [3] %}{{ x }}{% for i in x %}{% set x = [] %}{% endfor %}{{ x }}
{{ messages[0] }}{{ messages[0].content[:3] }}{{ messages | length }}{{ messages|last }}
{{ 1|string|length }}{{ [1,[2,3]]|string }}{{ {'a':'b'}|string }}{{ none|string }}{{ 1.0|string }}
{{ ''|default('x') }}{{ ''|default('x', true) }}{{ missing|default }}{{ missing.x|default('a') }}
{{ missing|default(missing2)|default('z') }}{{ none|default('a') }}{{ none|d('a', true) }}
{{ {'a': {'b': 1}}|attr('a') }}{{ d|attr('items') is callable }}{{ 'x'|attr('upper') is callable }}{{ (d|attr('k')) is defined }}
{{ 'x'|e }}{{ '<'|e }}{{ '<'|safe }}{{ '<'|e|e }}{{ ('<'|e) ~ '<' }}{{ ('<'|safe) ~ '<' }}
{{ 'abc'|batch(2)|map('join')|list }}{{ [1,2,3]|batch(2, 0)|list }}{{ []|batch(2)|list }}{{ [1,2,3]|slice(2)|map('list')|list }}
{{ [1,2,3]|first }}{{ []|first is defined }}{{ {}|first is defined }}{{ 'ab'|last }}{{ [1,2]|last }}
{{ [1,2]|min }}{{ ['b','A']|max }}{{ []|max is defined }}{{ [{'a':2},{'a':1}]|min(attribute='a') }}
{{ 3|abs }}{{ -3.5|abs }}{{ true|abs }}{{ 'a'|abs }}
{{ 'a'|center(5) ~ '|' }}{{ 5|center(4) }}
{{ '%s-%s'|format('a', 1) }}{{ '%(a)s'|format(a=1) }}{{ '%s'|format }}
{{ [3,1]|sort(reverse=true) }}{{ 'bca'|sort }}{{ {'b':1,'a':2}|sort }}{{ (2,1)|sort }}{{ range(3)|sort(true) }}
{{ '00\x00'|float(5) }}{{ '1\x00'|int(5) }}{{ '1_'|float(5) }}{{ '_1'|int(5) }}{{ '1__0'|float(5) }}{{ '1_0.5_0'|float }}{{ '1e1_0'|float }}{{ '0x1f'|float(5) }}{{ 'nan'|float }}{{ '-Infinity'|float }}
{{ ('inf' ~ t[:0])|float|int }}
{{ ('nan' ~ t[:0])|float|int(3) }}{{ 'inf'|int(4) }}{{ '-inf'|int(4) }}{{ '1e999'|int(5) }}
{{ 10000000000000005 / 3 }}{{ 9007199254740993 / 1 }}{{ -9007199254740993 / 2 }}{{ 1 / 9007199254740993 }}
{% for x in [1, 2]: %}{% if x == 1: %}a{% elif x == 2: %}b{% else: %}c{% endif %}{% else: %}d{% endfor %}
{% macro m(a): %}<{{ a }}{{ caller() }}>{% endmacro %}{% call m(1): %}x{% endcall %}{% filter upper: %}y{% endfilter %}{% set z: %}w{% endset %}{{ z }}{% with q = 1: %}{{ q }}{% endwith %}
{% generation: %}x{% endgeneration %}{% set y = 1: %}
{% if false %}{{ xs is not.there }}{{ s|not.there(1) }}{% endif %}{{ 'a' if true else s is un.known }}
{{ s is un.known }}
{{ ('nan' ~ t[:0])|float|round(method='ceil') }}
{{ ('inf' ~ t[:0])|float|round(0, 'floor') }}
{{ ('1e300' ~ t[:0])|float|round(2, 'floor') }}{{ 1.5|round(308, 'floor') }}{{ -1.5|round(-300, 'ceil') }}
{{ -1.5|round(-500, 'ceil') }}
{{ 1.5|round(309, 'ceil') }}
{{ (7)|string or s|unknown }}
{{ 0 or s|unknown }}
{{ s or s|unknown }}
{{ s|up . per }}
{{ (missing if false)[:2]|list }}
{{ (s if true else 1)[:2] }}
{{ [[5,6]]|join('', '٠') }}{{ [[5,6]]|map(attribute='1')|list }}{{ [[5,6]]|map(attribute='٠١')|list }}
{{ [[5,6]]|join('', '²') }}
{{ []|join('', '²') }}
{{ []|sum('a.²') }}
{{ []|sort(attribute='a,②') }}
{{ []|groupby('0.²') }}
{{ []|map(attribute='²')|list }}{{ []|min(attribute='²') is defined }}{{ {'a½': 1}|list|map(attribute='0½')|list }}
{{ [[5,6]]|map(attribute='²')|list }}
{{ [[5,6]]|map(attribute='0.')|list }}{{ [{'': [7]}]|map(attribute='.0')|list }}{{ [[5]]|sum('0') }}{{ [[5]]|sum(attribute='00') }}{{ [[5]]|sum(attribute='-1') is defined }}
{{ '%(a)%' % {'a': 1} }}
{{ 'x%(a)%(b)s' % {'a': 1, 'b': 2} }}
{{ '%5%' % 3 }}
{{ '%5%' % () }}
{{ '%%%s%%' % 5 }}{{ '%%(a)s' % () }}{{ '100%% of %(n)d%%' % {'n': 3} }}
{{ 'a' or {{'a': 1}: 2} }}{{ 'a' or [{[1]: 2}] }}
{{ 'a' or s or {{'a': 1}: 2} }}
{{ [s, {1: {[1]: 2}}] if false else 3 }}
{% if false %}{{ [{[1]: 2}] }}{% set q = {{}: s} %}{% endif %}ok
{% if false %}{% set q = -{[1]: 2} %}{% endif %}
{% if false %}{{ s|default({[1]: 2}) }}{% endif %}
{% if false %}{{ s is in({[1]: 2}) }}{% endif %}
{% if false %}{{ s.upper({(1, [2]): 2}) }}{% endif %}
{% if false %}{{ s ~ {[1]: s} }}{{ s ~ {s: 1, [1]: 2} }}{{ s ~ {[1]: 1 // 0} }}{{ s ~ {[1]|map('upper'): 1} }}{% endif %}ok
{% if false %}{{ s ~ {1: 2, [1]|sort: 3, s: 4} }}{% endif %}
{% if false %}{{ s ~ {[1]|map('upper')|list: 1, 'a'.split(): 2, (1 if false): 3} }}{% endif %}ok
{% if false %}{{ s ~ {(1 if true else s): 3, ({} or []): 4} }}{% endif %}
{% macro m(a={[1]: 2}) %}{% endmacro %}{% for x in [] %}{{ [{[1]: 2}, s] }}{% endfor %}ok
{% macro m(a=not {[1]: 2}) %}{% endmacro %}
{% if false %}{% filter default({[1]: 2}) %}x{% endfilter %}{% endif %}
{% if false %}{% set q | default({[1]: 2}) %}x{% endset %}{% endif %}
{% if false %}{% with q = s ~ {[1]: 2} %}x{% endwith %}{% endif %}
{% if false %}{% for x in [s, {[1]: 2}] if [{[1]: 2}] %}x{% endfor %}{{ {[1]: 2}[0] }}{% endif %}
{% if false %}{{ [1 ~ s, {[1]: 2}] }}{{ {'a': {[1]: 2}} }}{% endif %}ok
""".strip().split("\n")
