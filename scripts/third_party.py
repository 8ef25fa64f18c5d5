#!/usr/bin/env python3
"""Prints the licences of the crates that the given packages of the workspace contain once compiled:
what distributors of binaries have to pass on.

    third_party.py TARGET PACKAGE...
"""

import collections
import json
import pathlib
import subprocess
import sys

FILES = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def is_linked(dependency):
    """Whether it is needed at run time: neither by build scripts nor by tests alone."""
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


def contained(everything, roots):
    """The crates of others that the packages consist of, by name."""
    packages = {package["id"]: package for package in everything["packages"]}
    nodes = {node["id"]: node for node in everything["resolve"]["nodes"]}
    own = {package["name"]: id for id, package in packages.items() if not package["source"]}
    todo = [own[name] for name in roots]
    seen = set()
    while todo:
        id = todo.pop()
        # Macros run in the compiler, and so does what they need.
        kinds = [kind for target in packages[id]["targets"] for kind in target["kind"]]
        if id not in seen and "proc-macro" not in kinds:
            seen.add(id)
            todo += [needed["pkg"] for needed in nodes[id]["deps"] if is_linked(needed)]
    crates = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def main():
    target, *roots = sys.argv[1:]
    texts = collections.defaultdict(list)
    print("The programs contain Rust's standard library (MIT OR Apache-2.0) and these crates:\n")
    for crate in contained(metadata(target), roots):
        name = f"{crate['name']} {crate['version']}"
        print(f"{name}: {crate['license']}; {', '.join(crate['authors']) or crate['repository']}")
        folder = pathlib.Path(crate["manifest_path"]).parent
        for pattern in FILES:
            for path in sorted(folder.glob(pattern)):
                if path.is_file():
                    texts[path.read_text(errors="replace").strip()].append(name)
    for text, names in texts.items():
        print(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(names))}:\n\n{text}")


if __name__ == "__main__":
    main()
