"""Makes the wheel (PEP 517): the package's modules, saccade-parquet, and libsaccade.so, which cmake builds unless one is given.

    pip install .
    pip install . --config-settings library=build/release/libsaccade.so
    pip install . --config-settings cmake=-DSAC_CUDA=ON

The library is linked with this system's libraries (FFmpeg, OpenSSL ...), so a wheel is for systems like this one.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LICENCE = "LICENSE"
ENTRY_POINTS = "[console_scripts]\nsaccade-parquet = saccade_parquet:main\n\n[lmms_eval.models]\nsaccade = saccade.integrations.lmms_eval:manifest\n"


def version():
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as f:
        return re.search(r"project\(saccade VERSION (\S+)", f.read()).group(1)


def built_library(options):
    build = os.path.join(ROOT, "build/python")
    if not shutil.which("cmake"):
        raise SystemExit(
            "cmake is missing: 'tools/packages.sh install build' brings what the library is built with "
            "(--config-settings library=FILE packs one that is there)"
        )
    subprocess.run(
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            build,
            "-DCMAKE_BUILD_TYPE=Release",
            "-DSAC_SHARED=ON",
            "-DSAC_COMMAND=OFF",
            "-DSAC_TESTS=OFF",
            *options,
        ],
        check=True,
    )
    subprocess.run(
        ["cmake", "--build", build, "--parallel", str(os.cpu_count() or 1), "--target", "saccade_shared"], check=True
    )
    return os.path.join(build, "libsaccade.so")


def library(settings):
    """The file to pack: the one given, or one that is built now."""
    given = settings.get("library")
    if given:
        path = os.path.join(ROOT, given)
        if not os.path.isfile(path):
            raise SystemExit(f"library={given}: there is no such file")
        return path
    options = settings.get("cmake", [])
    return built_library([options] if isinstance(options, str) else options)


def metadata():
    return (
        f"Metadata-Version: 2.1\nName: saccade\nVersion: {version()}\nSummary: A runtime for vision-language models\n"
        f"License-File: {LICENCE}\nRequires-Python: >=3.9\n"
    )


def tag():
    return "py3-none-" + re.sub("[-.]", "_", sysconfig.get_platform())


def members(settings):
    """(name in the wheel, bytes) of all but RECORD."""
    folder = os.path.join(ROOT, "python/saccade")
    files = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    for path in sorted(os.path.relpath(file, folder) for file in files):
        if path.endswith((".py", ".typed")):
            with open(os.path.join(folder, path), "rb") as f:
                yield f"saccade/{path}", f.read()
    with open(os.path.join(ROOT, "python/saccade_parquet.py"), "rb") as f:
        yield "saccade_parquet.py", f.read()
    with open(library(settings), "rb") as f:
        yield "saccade/libsaccade.so", f.read()
    about = f"saccade-{version()}.dist-info"
    yield f"{about}/METADATA", metadata().encode()
    yield f"{about}/entry_points.txt", ENTRY_POINTS.encode()
    yield f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: saccade\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode()
    with open(os.path.join(ROOT, LICENCE), "rb") as f:
        yield f"{about}/{LICENCE}", f.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    unknown = set(settings) - {"library", "cmake"}
    if unknown:
        raise SystemExit(f"unknown setting {min(unknown)!r}: there are library=FILE and cmake=-DOPTION=VALUE")
    name = f"saccade-{version()}-{tag()}.whl"
    record, packed = [], list(members(settings))  # whole before there is a file: a build that fails leaves none
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in packed:
            wheel.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
        path = f"saccade-{version()}.dist-info/RECORD"
        wheel.writestr(path, "".join(record) + f"{path},,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no source distribution of its own: the source tree is one")
