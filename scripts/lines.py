#!/usr/bin/env python3
"""Lines of code by room of the house, in two commits: the table of docs/design/lines.md.

    scripts/lines.py [OLD [NEW]]            default: c0b07bd, before the restructuring, and HEAD
    scripts/lines.py --commits [OLD [NEW]]  net lines of the commits between them, by crate and by
                                            class: lines_commits.txt lists those that restructure

Counted are the hand-written files below crates/*/src, without blank lines, comments, tests, and
models and doubles for tests. All are formatted first by what rustfmt.toml says now, so that a
change of the format is no change of the code. The longest prefix in ROOMS places a file, wherever
it was in OLD.
"""

import collections
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

OUT = re.compile(r"bindings\.rs|/generated/|/tests?[./]|_tests\.rs|_model\.rs|/(fake|golden)\.rs")
# An attribute after which a file, or a module at a file's end, is for tests or loom alone.
FOR_TESTS = (r"#\[cfg\((?:(?:all|any)\()?(?:test|loom)[^\n]*\]\n(?:#\[[^\n]*\]\n)*"
             r"(?:pub(?:\(\w+\))? )?mod (\w+)")

# Features that OLD had: the room, and the prefixes of its files in either commit.
ROOMS = {
    "abi: calls": "abi mpi5",
    "bootstrap": "bootstrap",
    "channel: shared memory": "channel/lib channel/area channel/shm",
    "channel: direct, offload": "channel/direct channel/offload",
    "channel: mapped memory": "channel/direct/mapped node/fork_lock node/maps node/procmap "
                              "node/ranges node/migration_gate",
    "channel: user memory": "channel/memory",
    "channel: network": "channel/net channel/transport",
    "launch: options, hosts": "launch/options launch/hosts launch/environment launch/plan "
                              "launch/placement launch/shell_words launch/widths",
    "launch: running a job": "launch",
    "mica: bench": "mica/bench mica/draw/plot mica/draw/page mica/draw/mod mica/draw/scale "
                   "mica/draw/svg mica/compiled",
    "mica: info, explain": "mica mica/info mica/explain mica/network mica/table",
    "mica: tune": "mica/tune",
    "mpi: collectives, common": "mpi/collective",
    "mpi: collectives in a node": "mpi/collective/node mpi/collective/intranode",
    "mpi: communicators": "mpi/comm mpi/group mpi/attribute mpi/session",
    "mpi: datatypes, operators": "mpi/datatype mpi/op",
    "mpi: point to point": "mpi/pt2pt mpi/request mpi/buffered mpi/persistent mpi/partitioned "
                           "mpi/generalized mpi/status",
    "mpi: topologies": "mpi/topology",
    "mpi: the rest": "mpi",
    "node: segment, areas": "node/area node/segment node/handover node/identity node/late "
                            "node/sealed_file node/peer_table",
    "node: queues, locks": "node/cells node/claims node/chunk_queue node/split node/cooperative "
                           "node/doorbell node/fifo node/ring node/tokens node/helper_slots "
                           "node/lock node/park node/futex node/hint node/sync node/lib",
    "node: processes, machine": "node/process node/pmix node/launcher_socket node/topology",
    "node: tunables": "node/tunables",
    "policy": "policy",
    "protocol": "protocol",
}

# Features that came after OLD.
NEW = {
    "windows (RMA)": "abi/shims/rma abi/shims/window channel/window channel/memory/atomic "
                     "channel/memory/wide_atomic channel/memory/vectors channel/net/keys "
                     "channel/net/operations mpi/window node/window node/segment/window_space "
                     "node/counters/window protocol/rma protocol/windows policy/one_sided",
    "MPI_T, counters": "abi/tool abi/shims/tool mpi/tool node/counters protocol/events "
                       "mpi/comm/observe mpi/comm/counts",
    "hang reports, mica top": "mica/top node/attach node/segment/wait_record "
                              "node/segment/poll_record node/segment/reader node/segment/report "
                              "protocol/hang protocol/wait_account protocol/network_record "
                              "mpi/hang launch/attach launch/controller/hang launch/ranks/hang "
                              "launch/ranks/attach mpi/collective/label",
    "ranks of unlike ability": "node/segment/ability mpi/collective/intranode/by_messages "
                               "mpi/comm/route mpi/collective/refused mpi/lenient "
                               "mpi/collective/overlap mpi/collective/intranode/slot/mismatch",
    "mapped: known origin": "channel/direct/mapped/hooks channel/direct/mapped/loader "
                            "channel/direct/mapped/origin channel/direct/mapped/census "
                            "channel/direct/mapped/advice channel/direct/mapped/reclaim "
                            "channel/direct/mapped/extents channel/direct/mapped/usage "
                            "channel/direct/mapped/raw",
    "tune: only what gains": "mica/tune/compare mica/tune/verify",
    "addresses by node": "bootstrap/announced bootstrap/published bootstrap/inherited "
                         "bootstrap/claim bootstrap/pmi1/value_table",
    "adding segments": "protocol/add_segment protocol/added_segments "
                       "node/segment/reference channel/shm/transport channel/shm/hold",
    "adapter that matches": "node/adapter channel/adapter channel/transport/matching "
                            "protocol/adapter",
    "polling by time": "policy/yielding protocol/polling policy/hold node/ticks",
    "traffic-aware placement": "policy/mapping mica/place",
    "launch: many hosts": "launch/starter launch/start_order launch/route launch/requests "
                          "launch/departed launch/deadlines",
    "launch: peers' habits": "launch/foreign launch/options/foreign launch/options/config_file "
                             "launch/options/variables launch/options/nearest launch/redirect "
                             "launch/pattern launch/tool launch/master launch/inherit "
                             "launch/binding launch/file_writer launch/output_rules launch/input "
                             "launch/profiled launch/writer_thread node/process/cgroup "
                             "node/process/terminal "
                             "node/topology/reserve node/process/children node/process/tcp_peer",
    "mica: doctor, version": "mica/doctor mica/version mica/channels",
    "profiler": "profile profile-preload mica/profile node/perf",
    "charts": "mica/draw",
    "links": "links mica/links mpi/collective/intranode/account",
    "simulator, LogGP": "sim sim-plugin mica/sim mica/loggp",
}


def prefixes():
    """Each prefix with its room and whether OLD had the feature; longest first."""
    found = []
    for is_old, rooms in ((True, ROOMS), (False, NEW)):
        for room, names in rooms.items():
            found += [(name, room, is_old) for name in names.split()]
    return sorted(found, key=lambda entry: -len(entry[0]))


def begins(file, prefix):
    """Whether a file is the prefix, is below it, or has a name that it begins (`tool_pvar`)."""
    rest = file[len(prefix):]
    return file.startswith(prefix) and (not rest or rest[0] in "/._")


def formatted(text):
    """The text as `cargo fmt` writes it now; unchanged where rustfmt cannot read it."""
    command = ["rustfmt", "--edition", "2024", "--quiet", "--config-path", ROOT / "rustfmt.toml"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace")
    return done.stdout if done.returncode == 0 else text


def lines(text):
    text = re.split(FOR_TESTS + r" \{", text)[0]
    stripped = (line.strip() for line in text.split("\n"))
    return sum(1 for line in stripped if line and not line.startswith("//"))


def git(*arguments):
    return subprocess.check_output(["git", *arguments], text=True, errors="replace")


def is_counted(path):
    return path.endswith(".rs") and "/src/" in path and not OUT.search(path)


class Blobs:
    """Lines of a blob, and the modules in it that are for tests; each blob is read once."""

    def __init__(self):
        self.reader = subprocess.Popen(["git", "cat-file", "--batch"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.read = functools.cache(self.read)

    def read(self, blob):
        self.reader.stdin.write(f"{blob}\n".encode())
        self.reader.stdin.flush()
        size = int(self.reader.stdout.readline().split()[2])
        text = formatted(self.reader.stdout.read(size + 1)[:-1].decode(errors="replace"))
        return lines(text), re.findall(FOR_TESTS + ";", text)


def count(revision, blobs):
    """Lines of each source file, by its path without `crates/` and `src/`."""
    found, doubles = {}, set()
    for entry in git("ls-tree", "-r", revision, "crates/").splitlines():
        meta, path = entry.split("\t")
        if is_counted(path):
            name = path.removeprefix("crates/").replace("/src/", "/").removesuffix(".rs")
            found[name], modules = blobs.read(meta.split()[2])
            folder = re.sub(r"/?(mod|lib|main)$", "", name)
            doubles.update(f"{folder}/{module}" for module in modules)
    return {name: number for name, number in found.items() if name not in doubles}


def by_crate(revision, blobs):
    sums = collections.Counter()
    for file, found in count(revision, blobs).items():
        sums[file.split("/")[0]] += found
    return sums


def difference(new, old):
    """Of two counters; sums may be negative."""
    result = collections.Counter(new)
    result.subtract(old)
    return collections.Counter({crate: n for crate, n in result.items() if n})


def commits(old, new):
    """Of each commit from OLD to NEW: net lines by crate, whether it merges, and its subject.

    They add up to the difference of OLD and NEW, which is checked. A commit counts against its
    parent. A merge counts what its tree has beyond its first parent and the commits that it
    brings. Of two branches' commits with one subject, which are one change, the first counts.
    """
    blobs = Blobs()
    trees = functools.cache(lambda revision: by_crate(revision, blobs))
    log = git("log", "--topo-order", "--reverse", "--format=%H %P%x09%s", f"{old}..{new}")
    ancestors, found, firsts = {}, {}, {}
    for entry in log.splitlines():
        names, subject = entry.split("\t", 1)
        commit, first, *others = names.split()
        net = difference(trees(commit), trees(first))
        below = set().union(*(ancestors.get(parent, ()) for parent in [first, *others]))
        for brought in below - ancestors.get(first, set()):
            net = difference(net, found[brought][0])
        if not others and firsts.setdefault(subject, commit) not in below | {commit}:
            net = collections.Counter()
        ancestors[commit] = below | {commit}
        found[commit] = net, bool(others), subject
    total = sum(net.total() for net, *_ in found.values())
    expected = trees(new).total() - trees(old).total()
    if total != expected:
        sys.exit(f"{old} to {new}: commits add up to {total:+}, the trees differ by {expected:+}")
    return found


def restructuring():
    """The subjects of the commits that restructure, each with its reason."""
    text = pathlib.Path(__file__).with_name("lines_commits.txt").read_text()
    entries = (line.split(None, 1) for line in text.splitlines() if line and line[0] != "#")
    return {subject: reason for reason, subject in entries}


def print_commits(old, new, largest=8):
    """Net lines by crate and class, restructuring by reason, and the commits that changed most."""
    reasons, sums, named = restructuring(), {}, {}
    by_reason = collections.Counter()
    for commit, (net, is_merge, subject) in commits(old, new).items():
        reason = None if is_merge else reasons.get(subject)
        kind = "merges" if is_merge else "restructuring" if reason else "features and fixes"
        if net:
            sums.setdefault(kind, collections.Counter()).update(net)
            named.setdefault(kind, []).append((net.total(), commit[:8], subject))
            by_reason[reason] += net.total()
    kinds = sorted(sums)
    print(f"| crate | {' | '.join(kinds)} | sum |\n|---|{'--:|' * (len(kinds) + 1)}")
    rows = [(c, [sums[kind][c] for kind in kinds]) for c in sorted(set().union(*sums.values()))]
    for crate, row in [*rows, ("sum", [sums[kind].total() for kind in kinds])]:
        print(f"| {crate} | {' | '.join(f'{n:+,}' for n in [*row, sum(row)])} |")
    del by_reason[None]
    print("\nrestructuring by reason:",
          ", ".join(f"{reason} {n:+,}" for reason, n in reversed(by_reason.most_common())))
    for kind in kinds:
        entries = sorted(named[kind])
        removed, added = (sum(n for n, *_ in entries if (n < 0) == sign) for sign in (True, False))
        print(f"\n{kind}: {len(entries)} commits that change lines, {removed:+,} and {added:+,}")
        few = len(entries) <= 2 * largest
        for total, commit, subject in entries if few else entries[:largest] + entries[-largest:]:
            print(f"| {commit} | {subject} | {total:+,} |")


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--commits"]
    revisions = (arguments + ["c0b07bd", "HEAD"][len(arguments):])[:2]
    if "--commits" in sys.argv:
        print_commits(*revisions)
        return
    order, blobs = prefixes(), Blobs()
    rooms, crates = {}, {}
    for at, revision in enumerate(revisions):
        for file, found in count(revision, blobs).items():
            room, is_old = next((r, o) for p, r, o in order if begins(file, p))
            rooms.setdefault((room, is_old), [0, 0])[at] += found
            crates.setdefault(file.split("/")[0], [0, 0])[at] += found

    def table(head, rows):
        print(f"| {head} | before | now | |\n|---|--:|--:|--:|")
        for name, (old, new) in [*rows, ("sum", [sum(r[1][i] for r in rows) for i in (0, 1)])]:
            print(f"| {name} | {old:,} | {new:,} | {new - old:+,} |")
        print()

    table("features that were there before", [(r, rooms.get((r, True), [0, 0])) for r in ROOMS])
    table("features that came since", [(r, rooms.get((r, False), [0, 0])) for r in NEW])
    table("crate", sorted(crates.items()))


if __name__ == "__main__":
    main()
