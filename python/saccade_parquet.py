#!/usr/bin/env python3
"""saccade-parquet: captions for the pictures and videos of Parquet files, back into Parquet files.

    saccade-parquet photos.parquet --out captions
    saccade-parquet 'part-*.parquet' --media image --out captions -- -m DIR --ask "What is this?" --batch 16

Each file's rows become a WebDataset shard (a column of bytes, or of {"bytes", "path"} as Hugging Face has them) or lines of a
manifest (a column of paths), `saccade caption` describes them, and OUT/NAME.parquet has the rows in their order with the columns
`caption` and `caption_error`. What comes behind `--` goes to `saccade caption`. A run that was stopped goes on with the same
command: rows are known by their number and content.

Needs pyarrow. Exit code: that of `saccade caption`.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile

MEDIA_COLUMNS = ("image", "video", "picture", "jpg", "jpeg", "png", "webp", "mp4", "bytes", "path", "file", "file_name")
SIGNATURES = (
    (0, b"\xff\xd8\xff", "jpg"),
    (0, b"\x89PNG", "png"),
    (8, b"WEBP", "webp"),
    (0, b"GIF8", "gif"),
    (0, b"BM", "bmp"),
    (8, b"AVI ", "avi"),
    (0, b"\x1aE\xdf\xa3", "mkv"),
    (0, b"II*\0", "tif"),
    (0, b"MM\0*", "tif"),
    (0, b"\xff\x0a", "jxl"),
    (4, b"JXL ", "jxl"),
    (4, b"jP  ", "jp2"),
    (4, b"ftypavif", "avif"),
    (4, b"ftypheic", "heic"),
    (4, b"ftypheix", "heic"),
    (4, b"ftypmif1", "heic"),
    (4, b"ftyp", "mp4"),
)
OWN_COLUMNS = ("caption", "caption_error")
BATCH_ROWS = 256


class Refused(Exception):
    """One line for the user, and the exit code."""

    def __init__(self, text, code=65):
        super().__init__(text)
        self.code = code


def ending_of(data):
    for at, magic, ending in SIGNATURES:
        if data[at : at + len(magic)] == magic:
            return ending
    return "jpg"  # the command then says what it is not


def row_key(row, data):
    """A row that holds something else than before is another item."""
    return f"{row:09d}-{hashlib.sha256(data).hexdigest()[:12]}"


class Table:
    """A Parquet file: which of its columns is looked at."""

    def __init__(self, pq, path, media):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        try:
            self.file = pq.ParquetFile(path)
        except FileNotFoundError:
            raise Refused(f"{path}: no such file", 66) from None
        except Exception as e:  # whatever pyarrow finds wrong
            raise Refused(f"{path}: not a Parquet file: {e}") from None
        schema = self.file.schema_arrow
        for name in OWN_COLUMNS:
            if name in schema.names:
                raise Refused(f"{path}: has a column '{name}' already")
        found = [name for name in ([media] if media else MEDIA_COLUMNS) if name in schema.names]
        if not found:
            which = f"no column '{media}'" if media else "which column holds the pictures? give --media COLUMN"
            raise Refused(f"{path}: {which}; there are: {', '.join(schema.names)}")
        self.media = found[0]
        self.kind = self.kind_of(schema.field(self.media).type)

    def kind_of(self, t):
        import pyarrow.types as types

        if types.is_binary(t) or types.is_large_binary(t):
            return "bytes"
        if types.is_string(t) or types.is_large_string(t):
            return "paths"
        if types.is_struct(t) and "bytes" in [t.field(i).name for i in range(t.num_fields)]:
            return "struct"
        raise Refused(f"{self.path}: column '{self.media}' is {t}: expected bytes, paths, or a struct with 'bytes'")

    def rows(self):
        """(number, value of the media column) of each row."""
        row = 0
        for batch in self.file.iter_batches(batch_size=BATCH_ROWS, columns=[self.media]):
            for value in batch.column(0).to_pylist():
                yield row, value
                row += 1

    def data(self, value):
        """Bytes of a row, or None."""
        if self.kind == "struct" and value is not None:
            path = value.get("path")
            value = value["bytes"]
            if value is None and path:
                path = os.path.join(os.path.dirname(self.path), path)
                try:
                    if not os.path.isfile(path):  # a device has no end
                        return None
                    with open(path, "rb") as f:
                        return f.read()
                except OSError:
                    return None
        return value or None


def write_tar(table, path):
    """The same rows give the same bytes."""
    with tarfile.open(path + ".part", "w", format=tarfile.PAX_FORMAT) as tar:
        for row, value in table.rows():
            data = table.data(value)
            if data is None:
                continue
            info = tarfile.TarInfo(f"{row_key(row, data)}.{ending_of(data)}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    os.replace(path + ".part", path)


def write_lines(tables, path):
    with open(path + ".part", "w", encoding="utf-8") as f:
        for table in tables:
            for row, value in table.rows():
                if not value:
                    continue
                ending = os.path.splitext(value)[1].lower()
                kind = "video" if ending in (".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v") else "image"
                file = os.path.abspath(os.path.join(os.path.dirname(table.path), value))
                f.write(json.dumps({"id": f"{table.name}/{row_key(row, value.encode())}", kind: file}) + "\n")
    os.replace(path + ".part", path)


def write_input(tables, folder):
    """The words that `saccade caption` is given. A shard that was made for the same file is taken as it is."""
    os.makedirs(folder, exist_ok=True)
    if tables[0].kind == "paths":
        path = os.path.join(folder, "rows.jsonl")
        write_lines(tables, path)
        return [path]
    paths = []
    for table in tables:
        path, made_of = (os.path.join(folder, table.name + end) for end in (".tar", ".json"))
        info = os.stat(table.path)
        now = {"bytes": info.st_size, "mtime_ns": info.st_mtime_ns, "media": table.media}
        try:
            with open(made_of, encoding="utf-8") as f:
                same = os.path.exists(path) and json.load(f) == now
        except (OSError, ValueError):
            same = False
        if not same:
            write_tar(table, path)
            with open(made_of, "w", encoding="utf-8") as f:
                json.dump(now, f)
        paths.append(path)
    return paths


def read_results(tables, path):
    """[{row: (caption, error)}] of each table."""
    results = [{} for _ in tables]
    by_name = {table.name: i for i, table in enumerate(tables)}
    with open(path, encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            name, _, key = record["id"].rpartition("/")
            row = key.split("-")[0]
            if row.isdigit():
                of = by_name[name] if name else record["source"]
                results[of][int(row)] = (record.get("caption"), record.get("error", {}).get("text"))
    return results


def write_parquet(pa, pq, table, results, columns, path):
    """Of media in bytes the column is left out unless it is asked for."""
    names = columns
    if names is None:
        names = [n for n in table.file.schema_arrow.names if n != table.media or table.kind == "paths"]
    for name in names:
        if name not in table.file.schema_arrow.names:
            raise Refused(f"{table.path}: no column '{name}'")
    fields = [table.file.schema_arrow.field(name) for name in names] + [pa.field(n, pa.string()) for n in OWN_COLUMNS]
    row = 0
    with pq.ParquetWriter(path + ".part", pa.schema(fields), compression="zstd") as writer:
        for batch in table.file.iter_batches(batch_size=BATCH_ROWS, columns=names or [table.media]):
            n = batch.num_rows
            got = [results.get(i, (None, "the row holds no picture or video")) for i in range(row, row + n)]
            arrays = [batch.column(batch.schema.get_field_index(name)) for name in names]
            arrays += [pa.array([g[k] for g in got], pa.string()) for k in range(2)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
            row += n
    os.replace(path + ".part", path)


def parse(arguments):
    own, rest = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        own, rest = arguments[:at], arguments[at + 1 :]
    p = argparse.ArgumentParser(
        prog="saccade-parquet",
        description="Captions for the pictures and videos of Parquet files, back into Parquet files.",
        epilog="What comes behind -- goes to 'saccade caption'.",
    )
    p.add_argument("files", nargs="+", metavar="FILE.parquet", help="files, or quoted patterns")
    p.add_argument("--out", required=True, metavar="DIR", help="NAME.parquet for each file; the journal is below it")
    p.add_argument("--media", metavar="COLUMN", help="of bytes, of paths beside the file, or of {bytes, path}")
    p.add_argument("--columns", metavar="A,B", help="that the result has beside the captions (all but bytes of media)")
    p.add_argument("--saccade", default=os.environ.get("SACCADE", "saccade"), metavar="FILE", help="the command")
    p.add_argument("--keep", action="store_true", help="keep the shards that the rows were written to")
    try:
        a = p.parse_intermixed_args(own)
    except SystemExit as e:
        raise SystemExit(64 if e.code else 0) from None
    for word in rest:
        if word.split("=")[0] in ("--shard", "--shards", "--format", "--out"):
            raise Refused(f"{word}: not behind --; run a process for each part of the files instead", 64)
    return a, rest


def find_files(words):
    files = []
    for word in words:
        met = [word] if os.path.exists(word) else sorted(glob.glob(word))
        if not met:
            raise Refused(f"{word}: no such file", 66)
        files += met
    names = [os.path.splitext(os.path.basename(f))[0] for f in files]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise Refused(f"{files[names.index(name)]} and {files[i]} have the same name: results go by it", 64)
    return files


def run(arguments):
    a, rest = parse(arguments)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Refused("Parquet files need pyarrow: pip install pyarrow", 69) from None
    tables = [Table(pq, f, a.media) for f in find_files(a.files)]
    if len({t.kind == "paths" for t in tables}) > 1:
        raise Refused("some files hold bytes and some hold paths: run it for each kind", 64)
    for table in tables:
        result = os.path.join(a.out, table.name + ".parquet")
        if os.path.exists(result) and any(os.path.samefile(result, other.path) for other in tables):
            raise Refused(f"--out {a.out}: {result} would take the place of the rows themselves; give another folder", 64)
    columns = a.columns.split(",") if a.columns is not None else None
    work = os.path.join(a.out, "caption")
    os.makedirs(work, exist_ok=True)
    words = write_input(tables, os.path.join(a.out, "rows"))
    job = subprocess.run([a.saccade, "caption", *words, "--out", work, "--format", "jsonl", *rest], check=False)
    if job.returncode not in (0, 75):
        return job.returncode if job.returncode > 0 else 128 - job.returncode
    results = read_results(tables, os.path.join(work, "captions.jsonl"))
    for table, of_table in zip(tables, results):
        write_parquet(pa, pq, table, of_table, columns, os.path.join(a.out, table.name + ".parquet"))
    for word in [] if a.keep else words:
        os.remove(word)
    return job.returncode


def main():
    try:
        sys.exit(run(sys.argv[1:]))
    except Refused as e:
        print(f"saccade-parquet: {e}", file=sys.stderr)
        sys.exit(e.code)
    except KeyboardInterrupt:
        print("saccade-parquet: cancelled; run again to go on", file=sys.stderr)
        sys.exit(130)
    except OSError as e:
        print(f"saccade-parquet: {e}", file=sys.stderr)
        sys.exit(74)


if __name__ == "__main__":
    main()
