#!/usr/bin/env python3
"""Says whether a change of CUDA sources changed any kernel's machine code. Needs nvcc and no card.

    compare_sass.py build TREE OUT [ARCH [PATTERN]]   every kernels/cuda/**/*.cu of TREE (that matches) to OUT/<name>.cubin
    compare_sass.py OLD NEW                           two such folders, kernel by kernel

A kernel is the same when its instructions, relocations, registers, parameters, shared memory and constants are
the same bytes. Names may differ: namespaces are dropped before kernels are matched, and kernels of one name are
matched whatever file they are in. Ends with 1 when a kernel differs, is new or is missing.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

FLAGS = ["-DSAC_CUDA=1", "-O2", "-DNDEBUG", "-cubin", "-lineinfo", "--expt-relaxed-constexpr", "-Werror=all-warnings",
         "-std=c++17", "-x", "cu"]
PARAM_CBANK = 0x0A  # an attribute that holds the number of a symbol: it changes with names
REGCOUNT = 0x2F


def build(tree, out, arch, pattern):
    tree, out = pathlib.Path(tree).resolve(), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    folders = [tree / "kernels", tree / "runtime/device", tree / "runtime/base", tree / "include"]
    folders += [p for top in ("kernels/ops", "kernels/cuda") for p in sorted([tree / top, *(tree / top).glob("**/")]) if p.is_dir()]
    command = (["ccache"] if shutil.which("ccache") else []) + ["nvcc", f"-arch={arch}", *FLAGS]
    command += [f"-I{f}" for f in dict.fromkeys(folders)]

    def one(source):
        return subprocess.run([*command, str(source), "-o", str(out / (source.stem + ".cubin"))]).returncode

    sources = [s for s in sorted((tree / "kernels/cuda").glob("**/*.cu")) if re.search(pattern, str(s))]
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        return max(pool.map(one, sources), default=0)


def sections_of(elf):
    """{name: (type, flags, contents, size, info)} and the names of symbols by number."""
    (at,) = struct.unpack_from("<Q", elf, 40)
    size, n, names_at = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, at + i * size) for i in range(n)]

    def text(base, offset):
        return elf[base + offset:elf.index(b"\0", base + offset)].decode()

    found, symbols = {}, []
    for name, kind, flags, _, start, length, link, info, _, _ in heads:
        contents = b"" if kind == 8 else elf[start:start + length]
        found[text(heads[names_at][4], name)] = (contents, length, info)
        if kind == 2:
            symbols = [text(heads[link][4], struct.unpack_from("<I", contents, i)[0]) for i in range(0, length, 24)]
    return found, symbols


def attributes(contents):
    """Records of a .nv.info section: (attribute, value)."""
    at = 0
    while at < len(contents):
        form, what, small = struct.unpack_from("<BBH", contents, at)
        at += 4
        value = struct.pack("<H", small)
        if form == 4:
            value = contents[at:at + small]
            at += small
        yield what, value


def demangle(names):
    out = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout
    return dict(zip(names, out.split("\n")))


def plain(name):
    """A demangled name without namespaces; what the compiler makes up for lambdas and files goes too."""
    name = re.sub(r"^\$__internal_\d+_\$", "", name)
    name = re.sub(r"_INTERNAL_[0-9a-z_]+?_cu_[0-9a-f]{8}_\d+", "FILE", name)
    return re.sub(r"\b(?:sac|[a-z_]+)::(?=[A-Za-z_])", "", name)


def kernels_of(folder):
    """{plain name: [fingerprint, ...]} of all kernels and functions that stand alone."""
    raw = []
    for path in sorted(pathlib.Path(folder).glob("*.cubin")):
        elf = path.read_bytes()
        found, symbols = sections_of(elf)
        registers = {}
        for what, value in attributes(found[".nv.info"][0]):
            if what == REGCOUNT:
                index, n = struct.unpack("<II", value)
                registers[symbols[index]] = n
        for section in found:
            if section.startswith(".text."):
                raw.append((path.stem, section[6:], found, symbols, registers))
    names = {name for _, name, *_ in raw} | {s for *_, symbols, _ in raw for s in symbols}
    demangled = demangle(sorted(names))
    kernels = {}
    for stem, name, found, symbols, registers in raw:
        parts = {"code": found[".text." + name][0], "registers": str(registers.get(name)).encode()}
        parts["shared"] = str(found.get(".nv.shared." + name, (0, 0))[1]).encode()
        for n in range(8):
            parts[f"constants {n}"] = found.get(f".nv.constant{n}.{name}", (b"",))[0]
        info = found.get(".nv.info." + name, (b"",))[0]
        parts["parameters"] = b"".join(bytes([w]) + v for w, v in attributes(info) if w != PARAM_CBANK)
        moved = []
        for kind, width in ((".rel.text.", 16), (".rela.text.", 24)):
            contents = found.get(kind + name, (b"",))[0]
            for i in range(0, len(contents), width):
                where, what = struct.unpack_from("<QQ", contents, i)
                to = plain(demangled[symbols[what >> 32]])
                moved.append(f"{where} {what & 0xffffffff} {to} {contents[i + 16:i + width].hex()}")
        parts["relocations"] = "\n".join(moved).encode()
        prints = {k: hashlib.sha256(v).hexdigest()[:16] for k, v in parts.items()}
        kernels.setdefault(plain(demangled[name]), []).append((stem, len(parts["code"]), registers.get(name), prints))
    return kernels


def compare(old, new):
    a, b = kernels_of(old), kernels_of(new)
    same = bad = renamed = 0
    alone = {str(k[3]): name for name in a.keys() - b.keys() for k in a[name]}
    for name in sorted(b.keys() - a.keys()):
        for kernel in list(b[name]):
            twin = alone.pop(str(kernel[3]), None)
            if twin:
                renamed += 1
                b.setdefault(twin, []).append(kernel)
                b[name].remove(kernel)
    for name in sorted(a.keys() | b.keys()):
        left, right = list(a.get(name, [])), list(b.get(name, []))
        for kernel in list(left):
            twin = next((k for k in right if k[3] == kernel[3]), None)
            if twin:
                left.remove(kernel)
                right.remove(twin)
                same += 1
        for i in range(max(len(left), len(right))):
            bad += 1
            if i >= len(left) or i >= len(right):
                stem = (left or right)[i][0]
                print(f"{'only old' if i < len(left) else 'only new'}: {stem}: {name}")
                continue
            parts = ", ".join(k for k in left[i][3] if left[i][3][k] != right[i][3][k])
            print(f"differs ({parts}): {right[i][0]}: {name}: {left[i][1]} -> {right[i][1]} bytes, "
                  f"{left[i][2]} -> {right[i][2]} registers")
    print(f"{same} kernels the same ({renamed} of them by another name), {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) >= 4 and sys.argv[1] == "build":
        sys.exit(build(sys.argv[2], sys.argv[3], *(sys.argv[4:] + ["sm_90a", "."][len(sys.argv) - 4:])))
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(compare(sys.argv[1], sys.argv[2]))
