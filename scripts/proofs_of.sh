# shellcheck shell=sh
# Read by scripts/proof.sh (`. scripts/proofs_of.sh`): which proofs a change of a file needs. tests/structure/src/proofs.rs checks it, and
# tests/proofs has a deliberate fault for each kind of file, which what is selected here finds (`scripts/proof.sh faults`).

# All of them, as scripts/proof.sh calls them; loom:A,B are the models in these modules of the crate node.
ALL_PROOFS="deny loom miri-memory miri-node miri-objects thread address aarch64"

# proofs_of PATH: a list, which may be empty: what the tests that always run show is not repeated. What is not known needs all.
proofs_of() {
    case $1 in
        # Shared-memory primitives: the models of the module itself, and of those that stand on it.
        crates/node/src/area/*) echo loom:area miri-node thread aarch64 ;;
        crates/node/src/primitives/cells/*) echo loom:cells miri-node aarch64 ;;
        crates/node/src/primitives/chunk_queue/*) echo loom:chunk_queue miri-node thread aarch64 ;;
        crates/node/src/primitives/cooperative/*) echo loom:cooperative miri-node thread aarch64 ;;
        crates/node/src/primitives/doorbell/*) echo loom:doorbell,fifo miri-node aarch64 ;;
        crates/node/src/primitives/baselines/fifo/*) echo loom:fifo miri-node aarch64 ;;
        crates/node/src/primitives/fork_lock/*) echo loom:fork_lock thread aarch64 ;;
        crates/node/src/primitives/futex/*) echo loom:futex,park,fork_lock,lock,area,window,chunk_queue miri-node thread aarch64 ;;
        crates/node/src/primitives/helper_slots/*) echo loom:helper_slots miri-node thread aarch64 ;;
        crates/node/src/primitives/lock/*) echo loom:lock,area,window miri-node thread aarch64 ;;
        crates/node/src/primitives/migration_gate/*) echo loom:migration_gate thread aarch64 ;;
        crates/node/src/primitives/park/*) echo loom:park,lock,area,window,chunk_queue miri-node thread aarch64 ;;
        crates/node/src/primitives/ring/*) echo loom:ring,fifo miri-node aarch64 ;;
        crates/node/src/window/*) echo loom:window thread aarch64 ;;
        crates/node/src/primitives/sync.rs | crates/node/src/primitives/hint.rs) echo loom miri-node thread aarch64 ;;
        # What talks to the kernel and to hwloc: no models, and Miri has neither.
        crates/node/src/*) echo thread aarch64 ;;
        crates/memory/*) echo miri-memory address aarch64 ;;
        crates/channel/src/*) echo thread address aarch64 ;;
        crates/protocol/src/*) echo thread address aarch64 ;;
        crates/objects/src/datatype/* | crates/objects/tests/*datatype*) echo miri-objects address ;;
        crates/objects/src/* | crates/collective/src/* | crates/rma/src/* | crates/mpi/src/*) echo thread address ;;
        # Words that ranks share, and calls of the kernel with the program's memory.
        crates/files/src/*) echo thread address aarch64 ;;
        crates/abi/src/*) echo thread address aarch64 ;;
        crates/mpi5/src/* | crates/front-end/src/* | crates/mpich/src/* | crates/fortran/src/* | crates/mpich-fortran/* | include/*) echo address aarch64 ;;
        # Compiled for the other architecture: they read its registers, or hold words that processes share.
        crates/sim-plugin/* | crates/profile-preload/* | crates/bootstrap/src/*) echo aarch64 ;;
        # Pure code, tools and the launcher: their tests run always.
        crates/algorithms/src/* | crates/policy/src/* | crates/launch/* | crates/symbols/* | crates/mica/src/* | crates/profile/src/* | crates/report/* | crates/experiments/* | crates/links/* | crates/machine/* | crates/sim/* | crates/statistics/*) ;;
        crates/*/tests/* | crates/*/examples/*) ;;
        # Corpora run always, by the tests of the crate fuzz.
        fuzz/*) ;;
        tests/jobs/sanitizers.rs | tests/sanitizers/* | tests/c/tools/faulty.c | scripts/sanitizers.sh) echo thread address ;;
        tests/c/thr_* | tests/c/rma_threads.c | tests/c/session_threads.c) echo thread address ;;
        scripts/miri.sh) echo miri-memory miri-node miri-objects ;;
        scripts/aarch64.sh) echo aarch64 ;;
        scripts/proof.sh | scripts/proofs_of.sh | tests/proofs/*.patch) echo "$ALL_PROOFS" ;;
        deny.toml) echo deny ;;
        tests/* | scripts/* | .ci/* | Makefile | .gitignore | .git-blame-ignore-revs | rustfmt.toml) ;;
        docs/* | *.md | LICENSE-* | bench/* | examples/* | wrappers/* | bindings/* | packaging/*) ;;
        *) echo "$ALL_PROOFS" ;;
    esac
}

# proofs_of_all: of the paths on standard input, each proof once, and the modules of loom together.
proofs_of_all() {
    while read -r path; do
        proofs_of "$path"
    done | tr ' ' '\n' | sort -u | awk '
        $0 == "" { next }
        /^loom:/ { sub("loom:", ""); modules = modules (modules == "" ? "" : ",") $0; next }
        $0 == "loom" { whole = 1 }
        { print }
        END { if (!whole && modules != "") print "loom:" modules }' | tr '\n' ' ' | sed 's/ *$//'
}
