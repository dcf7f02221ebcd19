#!/usr/bin/env python3
"""Fails when files of one library need each other in a circle, or when a library uses what it does not name.

    tools/check_circles.py BUILD_DIR

Reads the symbols of the objects that BUILD_DIR holds (nm, compile_commands.json) and what each library names
(BUILD_DIR/modules.txt, which cmake/sac_module.cmake fills). A file A needs a file B when A uses a symbol that B defines.
Two files in a circle can be read, tested and moved only together; a library that uses more than it names points upward
or past its neighbours, which the include path alone does not show: a declaration can be copied.
"""
import json
import pathlib
import re
import subprocess
import sys

# Families of variants: files that are one thing cut in pieces, behind one door. (library, pattern of file names, why)
FAMILIES = [
    ("sac_kernels", r"(linear|linear_blocks|linear_e4m3|few_e4m3)\.cu", "linear by how weights are stored; one may fall back to another"),
]


def find_objects(build):
    """{object path: library} of all libraries of ours in this build; libsaccade.so's objects are the same files again."""
    objects = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        found = re.search(r" -o (\S*CMakeFiles/(sac_\w+)\.dir/\S+\.o)", entry["command"])
        if found and not found.group(2).endswith("_shared"):
            objects[str(pathlib.Path(entry["directory"]) / found.group(1))] = found.group(2).removesuffix("_isa")  # objects of a library of ours
    return objects


def read_modules(build):
    """{library: libraries that it names}."""
    modules = {}
    for line in (build / "modules.txt").read_text().splitlines():
        name, *named = line.split()
        modules[name] = set(named)
    return modules


def read_symbols(objects):
    """({symbol: object that defines it}, {object: symbols that it uses})."""
    defined, used = {}, {path: set() for path in objects}
    listing = subprocess.run(["nm", "-A", "-P", "-g", *objects], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        place, rest = line.split(": ", 1)
        symbol, kind = rest.split()[:2]
        if kind in "Uwv":
            used[place].add(symbol)
        else:
            defined[symbol] = place
    return defined, used


def edges_between(defined, used):
    """{object: {object that it needs: one symbol that ties them}}."""
    edges = {path: {} for path in used}
    for path, symbols in used.items():
        for symbol in sorted(symbols):
            home = defined.get(symbol)
            if home and home != path:
                edges[path].setdefault(home, symbol)
    return edges


def find_circles(nodes, edges):
    """Strongly connected sets of more than one node (Tarjan, without recursion)."""
    index, low, on_stack, stack, circles = {}, {}, set(), [], []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while not circle or circle[-1] != node:
                        circle.append(stack.pop())
                        on_stack.discard(circle[-1])
                    if len(circle) > 1:
                        circles.append(sorted(circle))
    return circles


def file_name(path):
    return re.sub(r"\.o$", "", pathlib.Path(path).name)


def is_listed(rules, library, circle):
    return any(rule[0] == library and all(re.fullmatch(rule[1], file_name(path)) for path in circle)
               for rule in rules)


def check_files(objects, edges):
    """Circles between files of one library; returns how many are refused."""
    refused = 0
    for library in sorted(set(objects.values())):
        nodes = sorted(path for path, own in objects.items() if own == library)
        inside = {path: {other: symbol for other, symbol in edges[path].items() if objects[other] == library}
                  for path in nodes}
        for circle in find_circles(nodes, inside):
            if is_listed(FAMILIES, library, circle):
                continue
            refused += 1
            print(f"CIRCLE in {library}: {' '.join(map(file_name, circle))}")
            for path in circle:
                for other, symbol in sorted(inside[path].items()):
                    if other in circle:
                        print(f"    {file_name(path)} uses {symbol} of {file_name(other)}")
    return refused


def reachable(modules, library):
    seen, work = set(), [library]
    while work:
        for other in modules.get(work.pop(), ()):
            if other not in seen:
                seen.add(other)
                work.append(other)
    return seen


def check_libraries(objects, edges, modules):
    """Libraries that use what they do not name, or that name each other in a circle; returns how many."""
    refused = 0
    for circle in find_circles(sorted(modules), modules):
        print(f"CIRCLE of libraries: {' '.join(circle)}")
        refused += 1
    told = set()
    for path in sorted(objects):
        library = objects[path]
        below = reachable(modules, library)
        for other, symbol in sorted(edges[path].items()):
            pair = (library, objects[other])
            if pair[0] == pair[1] or pair[1] in below or pair in told:
                continue
            told.add(pair)
            refused += 1
            print(f"UPWARD: {library} uses {symbol} of {pair[1]}, which it does not name "
                  f"({file_name(path)} -> {file_name(other)})")
    return refused


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    objects, modules = find_objects(build), read_modules(build)
    missing = [path for path in objects if not pathlib.Path(path).exists()]
    if missing:
        sys.exit(f"{len(missing)} objects are not built, {missing[0]} among them: build all first")
    edges = edges_between(*read_symbols(objects))
    refused = check_files(objects, edges) + check_libraries(objects, edges, modules)
    print(f"{len(objects)} files of {len(set(objects.values()))} libraries: {refused} refusals")
    sys.exit(refused > 0)


if __name__ == "__main__":
    main()
