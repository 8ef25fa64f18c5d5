# shellcheck shell=sh disable=SC2034,SC2154,SC2086 # variables are the wrapper's; $compiler is several words
# Read by wrappers/mpicc when it is called as mpifort: finds a Fortran compiler, and the modules mpi_f08 and mpi compiled by it.
#
# A module file serves the compiler that wrote it alone, so Mica ships the modules' sources and compiles them at their first use with a
# compiler. A cache directory has one entry for each compiler, ENTRY: its module files, and libmica_fortran.a with the procedures. An entry
# is made in .making.HOST.PID beside it and renamed when it is whole, so whoever finds an entry finds all of it, and a kill leaves nothing
# but such a directory, which a later run removes. The lock keeps the processes of `make -j` from compiling the same entry; where locks do
# not work, the first to rename wins. An entry's name is a checksum of what its files depend on (entry_name), so entries are never changed.

SOURCES=@SOURCES@ # checksum of mpif.h, of the modules' sources and of this file
COMPILERS='gfortran flang flang-new ifx nvfortran crayftn nagfor f95'
LOCK_WAIT=120 # seconds; ten times what the slowest compiler needs. Then this process compiles for itself.
LEFT_AFTER=60 # minutes; after that a .making directory of another host has no process
ROOM=4096     # KiB that must be free to say that a compiler's failure was not a full disk; an entry has less than 1 MiB

# find_fortran_compiler: sets $compiler, the path of its first word ($program_path), the file that this leads to ($compiler_file) and the
# words after it ($arguments). The command line or MICA_FC says which compiler, which mpicc has looked at, or else MPICH_FC: CMake's FindMPI
# names the project's compiler to the wrapper in that.
find_fortran_compiler() {
    if [ -z "$compiler" ] && [ -n "${MPICH_FC-}" ] && ! is_wrapper "$MPICH_FC"; then
        compiler=$MPICH_FC
    fi
    if [ -z "$compiler" ]; then
        for candidate in $COMPILERS; do
            if command -v "$candidate" >/dev/null; then
                compiler=$candidate
                break
            fi
        done
        [ -n "$compiler" ] || fail "there is no Fortran compiler in PATH ($COMPILERS); name one by MICA_FC or -fc="
    fi
    program=${compiler%% *}
    program_path=$(command -v "$program") || fail "there is no compiler '$program'; name another by MICA_FC or -fc="
    ! is_wrapper "$program" || fail "'$program' is a wrapper itself; name the compiler that it is to run by MICA_FC or -fc="
    case $program_path in
        /*) ;;
        *) program_path=$PWD/$program_path ;;
    esac
    compiler_file=$(readlink -f "$program_path")
    arguments=${compiler#"$program"}
    # A compiler that calls mpifort itself, as HDF5's h5pfc, must not be what it calls again.
    unset MICA_FC MPICH_FC
}

# is_wrapper COMMAND: whether it is called as wrappers of MPIs are. This one would run itself, another's library is not Mica's.
is_wrapper() {
    word=${1%% *}
    case ${word##*/} in
        mpi*) return 0 ;;
        *) return 1 ;;
    esac
}

# find_modules ARGUMENT...: sets $modules to the entry for the compiler, and makes it if there is none.
find_modules() {
    for word in $compiler "$@"; do
        case $word in
            -fdefault-integer-8 | -i8 | -integer-size=64 | -sinteger64 | -sdefault64 | -qintsize=8)
                fail "$word: MPI's arguments are default INTEGERs, which have 32 bits in Mica's libraries; compile without $word" ;;
            -m32 | -mx32)
                fail "$word: Mica's libraries are for 64-bit programs; compile without $word" ;;
        esac
    done
    entry=$(entry_name)
    places "$prefix/lib/mica/fortran" "$(user_cache)"
    for place in "$first_place" "$second_place"; do
        if [ -s "$place/$entry/libmica_fortran.a" ]; then
            modules=$place/$entry
            return
        fi
    done
    reasons=
    for place in "$first_place" "$second_place"; do
        [ -n "$place" ] || continue
        status=0
        reason=$(make_entry "$place" "$place/$entry") || status=$?
        case $status in
            0) modules=$place/$entry; return ;;
            "$NO_PLACE") reasons="${reasons:+$reasons, or }in $place ($reason)" ;;
            "$NOT_COMPILED") fail "$reason" ;;
            *) exit "$status" ;; # interrupted
        esac
    done
    fail "cannot keep Mica's compiled modules ${reasons:-anywhere, since HOME is not set}; name a directory for them by MICA_FORTRAN_CACHE"
}

# places PREFIX_CACHE USER_CACHE: sets $first_place and $second_place, where an entry may be; the first in which it can be made gets it.
places() {
    first_place=$1 second_place=$2
    case ${MICA_FORTRAN_CACHE-} in
        '') ;;
        /*) first_place=$MICA_FORTRAN_CACHE second_place= ;;
        *) first_place=$PWD/$MICA_FORTRAN_CACHE second_place= ;;
    esac
}

user_cache() {
    case ${XDG_CACHE_HOME-} in
        /*) printf '%s/mica/fortran' "$XDG_CACHE_HOME" ;;
        *) [ -z "${HOME-}" ] || printf '%s/.cache/mica/fortran' "$HOME" ;;
    esac
}

# entry_name: the compiler's name, and a checksum of the compiler's file, the words after it, the modules' sources and Mica's version. It is
# the same by whichever name or link the compiler is called.
entry_name() {
    identity="$(stat -c '%n %s %Y' "$compiler_file") $arguments $SOURCES @VERSION@"
    is_known_by_file || identity="$identity $(compiler_version)"
    checksum=$(printf %s "$identity" | sha256sum)
    printf '%s-%.16s' "${compiler_file##*/}" "$checksum"
}

# is_known_by_file: whether the compiler is the same as long as its file is: a program, called with options alone. Asking for its version
# takes up to 0.1 s. A script, or ccache, may start another compiler each time, and is asked.
is_known_by_file() {
    case $(head -c 4 "$compiler_file") in
        ?ELF) ;;
        *) return 1 ;;
    esac
    case ${compiler_file##*/} in
        *ccache | distcc | icecc) return 1 ;;
    esac
    for word in $arguments; do
        case $word in
            -*) ;;
            *) return 1 ;;
        esac
    done
}

compiler_version() {
    "$program_path" $arguments --version 2>/dev/null </dev/null || "$program_path" $arguments -V 2>&1 </dev/null || true
}

# make_entry PLACE ENTRY: makes it, or waits for another process that does. Prints why if it cannot: with status $NO_PLACE if another place
# may do, or $NOT_COMPILED. Runs in a shell of its own ($(make_entry)), which holds the lock and removes what it has made when it ends.
NO_PLACE=3
NOT_COMPILED=4
make_entry() {
    # All users of an installation read its entries, whoever makes them.
    [ "$1" != "$prefix/lib/mica/fortran" ] || umask 022
    made=$(mkdir -p "$1" 2>&1) || give_up $NO_PLACE "${made##*: }"
    made=$( (: >>"$1/.lock") 2>&1) || give_up $NO_PLACE "${made##*: }"
    exec 9>>"$1/.lock"
    ! command -v flock >/dev/null || flock -w $LOCK_WAIT 9 2>/dev/null || true
    [ ! -s "$2/libmica_fortran.a" ] || exit 0
    host=$(uname -n)
    remove_left "$1"
    making=$1/.making.$host.$$
    trap 'rm -rf "$making"' EXIT
    trap 'exit 130' INT TERM HUP
    made=$(mkdir "$making" 2>&1) || give_up $NO_PLACE "${made##*: }"
    cd "$making" || exit 1
    if [ -t 2 ]; then
        echo "$name: compiling Mica's modules for $(compiler_version | head -n 1), once, into $2" >&2
    fi
    for source in mpi_f08 mpi; do
        compile "$prefix/share/mica/fortran/$source.f90" "$2.log"
    done
    lenience >options 2>/dev/null || not_made options "$2.log"
    said=$(${AR:-ar} rcs libmica_fortran.a ./*.o 2>&1) || not_made "$said" "$2.log"
    printf '%s\n' "$compiler ($compiler_file)" "$(compiler_version)" >compiler 2>/dev/null || not_made compiler "$2.log"
    rm ./*.o
    # What a crash of the system leaves under the entry's name must not be empty files.
    sync ./* 2>/dev/null || true
    rm -rf "$2.log"
    # An entry without its library is what somebody has removed a part of.
    [ -s "$2/libmica_fortran.a" ] || rm -rf "$2"
    mv -T "$making" "$2" 2>/dev/null || [ -s "$2/libmica_fortran.a" ] || give_up $NO_PLACE "cannot rename $making"
}

give_up() {
    printf '%s\n' "$2"
    exit "$1"
}

# remove_left PLACE: the directories of processes that were killed.
remove_left() {
    for left in "$1"/.making.*; do
        [ -d "$left" ] || continue
        if [ "$left" = "$1/.making.$host.${left##*.}" ] && [ ! -d "/proc/${left##*.}" ]; then
            rm -rf "$left"
        else
            find "$left" -maxdepth 0 -mmin +$LEFT_AFTER -exec rm -rf {} +
        fi
    done 2>/dev/null
}

# compile SOURCE LOG: in the current directory. The lock is not the compiler's, which may live on when this shell is killed.
compile() {
    case ${program##*/} in
        nagfor*) options='-O2 -PIC' ;;
        *) options='-O2 -fPIC' ;;
    esac
    said=$("$program_path" $arguments $options "-I$prefix/include" -c "$1" 2>&1 </dev/null 9>&-) || not_made "$said" "$2"
}

# lenience: the option, if the compiler has it. Since version 10 gfortran refuses to compile a program that calls a function without an
# interface, as mpif.h's are, with arrays of two types: MPI's very purpose.
lenience() {
    option=-fallow-argument-mismatch
    echo '      end' >lenient.f || return
    if said=$("$program_path" $arguments $option -c lenient.f -o lenient 2>&1 </dev/null 9>&-) && [ -z "$said" ]; then
        echo $option
    else
        echo
    fi
    rm -f lenient.f lenient
}

# not_made OUTPUT LOG: a command has failed with this output: since the disk is full, or since the compiler cannot do it.
not_made() {
    if ! { dd if=/dev/zero of=room bs=1024 count=$ROOM && sync room; } >/dev/null 2>&1; then
        give_up $NO_PLACE "less than $((ROOM / 1024)) MiB free"
    fi
    printf '%s\n' "$1" >"$2"
    first=$(printf '%s\n' "$1" | grep -i -m 1 error) || first=$(printf '%s\n' "$1" | head -n 1)
    give_up $NOT_COMPILED "'$compiler' cannot compile Mica's modules: $first (all that it says: $2)"
}
