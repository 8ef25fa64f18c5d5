"""Times for bench/sim_speed.sh, which says what they are. Runs in its directory of programs."""

import json
import os
import statistics
import subprocess
import time

ROOT = os.environ["ROOT"]
RUNS = int(os.environ["RUNS"])

CACHEGRIND = (
    "valgrind --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null"
    " --I1=32768,8,64 --D1=32768,8,64 --LL=8388608,16,64"
).split()
FLOOR = "qemu-x86_64 -cpu max -plugin ./floor.so".split()
PROGRAMS = [
    "integer_sort S --iterations 20",
    "integer_sort M --iterations 12",
    "jacobi 4K --rows 64 --iterations 20",
    "jacobi 4K --rows 64 --iterations 200",
]


def sim(machine, nodes=1, json_file="run.json"):
    """Without a launcher; quanta may grow, since a single node hears from no other."""
    options = ["--machine", machine, "-n", str(nodes), "--json", json_file]
    return ["mica", "sim", "run", "-q", *options, "--growth", "1000000", "--"]


TOOLS = {
    "cachegrind": CACHEGRIND,
    "floor": FLOOR,
    "same": sim(f"{ROOT}/bench/sim/cachegrind.toml"),
    "power5": sim("power5-redstorm"),
    "xeon": sim("xeon8480-ndr"),
}


def seconds(command):
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def medians(commands):
    """Of several commands in turns, so that all meet the same host."""
    times = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: statistics.median(measured) for name, measured in times.items()}


def speed():
    start = medians({name: [*tool, "./start"] for name, tool in TOOLS.items()})
    print("program, seconds:", *TOOLS, "accesses", "cachegrind/same", "floor limit", sep="\t")
    print("start", *(f"{start[name]:.3f}" for name in TOOLS), sep="\t")
    for program in PROGRAMS:
        name, *arguments = program.split()
        took = medians({tool: [*TOOLS[tool], f"./{name}", *arguments] for tool in TOOLS})
        counts = json.load(open("run.json"))["counts"]
        accesses = counts["loads"] + counts["stores"]
        row = [f"{took[tool]:.3f}" for tool in TOOLS]
        ratio = took["cachegrind"] / took["same"]
        limit = took["cachegrind"] / took["floor"]
        print(program, *row, accesses, f"{ratio:.2f}", f"{limit:.2f}", sep="\t")
        per_access = [f"{(took[t] - start[t]) / accesses * 1e9:.2f}" for t in TOOLS]
        print("  ns an access", *per_access, sep="\t", flush=True)


def efficiency():
    print("two nodes, seconds:", "one core", "two cores", "efficiency", "same end", sep="\t")
    for program in PROGRAMS[0], PROGRAMS[2]:
        for growth in ["1", "64"]:
            name, *arguments = program.split()
            tail = ["--growth", growth, "--", f"./{name}", *arguments]
            head = ["mica", "sim", "run", "-q", "-n", "2", "--json"]
            bound = ["sh", "-c", 'exec taskset -c $PMI_RANK "$@"', "bound"]
            commands = {
                "one": ["taskset", "-c", "0", "mpiexec", "-n", "1", *head, "1.json", *tail],
                "two": ["mpiexec", "-n", "2", *bound, *head, "2.json", *tail],
            }
            took = medians(commands)
            ends = [json.load(open(f"{n}.json"))["end_ns"] for n in (1, 2)]
            share = took["one"] / took["two"] / 2
            times = [f"{took[n]:.3f}" for n in ("one", "two")]
            same = "yes" if ends[0] == ends[1] else f"no: {ends}"
            print(f"{program}, growth {growth}", *times, f"{share:.2f}", same, sep="\t", flush=True)


speed()
efficiency()
