#!/usr/bin/env python3
"""Lines of code by room of the house, in two commits: the table of docs/design/lines.md.

    scripts/lines.py [OLD [NEW]]        default: c0b07bd, before the restructuring, and HEAD

Counted are the hand-written files below crates/*/src, without blank lines, comments, tests, and
models and doubles for tests. The longest prefix in ROOMS places a file, wherever it was in OLD.
"""

import re
import subprocess
import sys

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
                              "node/ranges",
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


def lines(text):
    text = re.split(FOR_TESTS + r" \{", text)[0]
    stripped = (line.strip() for line in text.split("\n"))
    return sum(1 for line in stripped if line and not line.startswith("//"))


def count(revision):
    """Lines of each source file, by its path without `crates/` and `src/`."""
    def git(*arguments):
        return subprocess.check_output(["git", *arguments], text=True, errors="replace")

    texts, doubles = {}, set()
    for path in git("ls-tree", "-r", "--name-only", revision, "crates/").split("\n"):
        if path.endswith(".rs") and "/src/" in path and not OUT.search(path):
            name = path.removeprefix("crates/").replace("/src/", "/").removesuffix(".rs")
            texts[name] = git("show", f"{revision}:{path}")
            folder = re.sub(r"/?(mod|lib|main)$", "", name)
            modules = re.findall(FOR_TESTS + ";", texts[name])
            doubles.update(f"{folder}/{module}" for module in modules)
    return {name: lines(text) for name, text in texts.items() if name not in doubles}


def main():
    revisions = (sys.argv[1:] + ["c0b07bd", "HEAD"][len(sys.argv) - 1:])[:2]
    order = prefixes()
    rooms, crates = {}, {}
    for at, revision in enumerate(revisions):
        for file, found in count(revision).items():
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
