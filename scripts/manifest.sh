# shellcheck shell=sh disable=SC2154 # $prefix is of the script that reads this
# Read by install.sh and uninstall.sh (`. scripts/manifest.sh`): how files get into an installation, and out of it again.
#
# $prefix/share/mica/manifest has a line for each file that was installed (its checksum, or the target of a link, then its path in $prefix)
# and one for each directory that was made for them. What another program or a person has put there since is not what a line describes, and
# stays. share/mica/manifest.new has the paths of an installation under way, each written before its file is there: of one that was
# interrupted, the next installation and uninstall know what it left.

export LC_ALL=C # one order for sort and comm
MANIFEST=share/mica/manifest
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

# record PATH: that a file, or a directory with a slash at its end, is of this installation.
record() {
    printf '%s\n' "${1#"$prefix"/}" >>"$prefix/$MANIFEST.new"
}

# directory DIR: makes it, and those that it lies in, where they are not there.
directory() {
    if [ ! -d "$1" ]; then
        directory "${1%/*}"
        record "$1/"
        mkdir "$1"
    fi
}

# put MODE FROM TO: a file as it is, by way of a new name: a program that runs keeps the file that it has.
put() {
    directory "${3%/*}"
    record "$3"
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
}

# filled MODE FROM TO [EDITS]: a file with this version in it, and with further edits of sed.
filled() {
    sed "s/@VERSION@/$(version)/; ${4-}" "$2" >"$scratch/filled"
    put "$1" "$scratch/filled" "$3"
}

# link TARGET TO: a symbolic link.
link() {
    directory "${2%/*}"
    record "$2"
    ln -sfn "$1" "$2.new"
    mv -f "$2.new" "$2"
}

# tree FROM TO: the files and links of a directory that only its reader opens, all at once.
tree() {
    (cd "$1" && find . -type f -o -type l) | sed "s|^\.|${2#"$prefix"/}|" >>"$prefix/$MANIFEST.new"
    # Directory by directory: one that is there may be a link to another.
    (cd "$1" && find . -mindepth 1 -type d) | while read -r tree_directory; do
        directory "$2/${tree_directory#./}"
        find "$1/$tree_directory" -maxdepth 1 '(' -type f -o -type l ')' -exec cp -Pf -t "$2/$tree_directory" {} +
    done
}

# object MODE FROM TO: a program or a shared object without what only a debugger reads. Its symbol table stays, so that stacks of gdb, perf and
# valgrind have functions' names everywhere. Line tables go to .debug/NAME.debug beside it if DEBUG is set; the object names that file and its
# checksum, by which gdb, valgrind and crates/symbols find it there, wherever the installation is moved. OBJCOPY is another objcopy, for
# objects of another architecture.
object() {
    object_debug=${3##*/}.debug
    ${OBJCOPY:-objcopy} --only-keep-debug "$2" "$scratch/$object_debug"
    ${OBJCOPY:-objcopy} --strip-debug --add-gnu-debuglink="$scratch/$object_debug" "$2" "$scratch/object"
    put "$1" "$scratch/object" "$3"
    case ${DEBUG:-0} in
        0) ;;
        *) put 644 "$scratch/$object_debug" "${3%/*}/.debug/$object_debug" ;;
    esac
    rm "$scratch/$object_debug"
}

# described: of the paths on standard input, the manifest's lines for what is there now.
described() {
    {
        while read -r described_path; do
            described_file=$prefix/$described_path
            if [ -L "$described_file" ]; then
                printf 'link:%s  %s\n' "$(readlink "$described_file")" "$described_path" >&3
            elif [ -d "$described_file" ]; then
                printf 'directory  %s\n' "$described_path" >&3
            elif [ -f "$described_file" ]; then
                printf '%s\n' "$described_path"
            fi
        done | (cd "$prefix" && xargs -r sha256sum)
    } 3>&1
}

# paths: those of the manifest's lines on standard input.
paths() {
    sed 's/^[^ ]*  //'
}

# take_back: removes the files that the manifest's lines on standard input describe.
take_back() {
    sort -u >"$scratch/lines"
    paths <"$scratch/lines" | sort -u | described | sort >"$scratch/now"
    comm -12 "$scratch/lines" "$scratch/now" | grep -v '^directory ' | paths | (cd "$prefix" && xargs -r rm -f)
    comm -13 "$scratch/lines" "$scratch/now" | paths | while read -r kept; do
        say "left $prefix/$kept: it is not the file that was installed"
    done
}

# remove_empty: removes the directories on standard input that are empty, each after those in it.
remove_empty() {
    sort -r | while read -r empty; do
        rmdir "$prefix/${empty#./}" 2>/dev/null || true
    done
}

# adopt_interrupted: adds what an installation left that did not come to its end to the manifest.
adopt_interrupted() {
    if [ -f "$prefix/$MANIFEST.new" ]; then
        described <"$prefix/$MANIFEST.new" >>"$prefix/$MANIFEST"
        rm -f "$prefix/$(tail -n 1 "$prefix/$MANIFEST.new").new"
        rm "$prefix/$MANIFEST.new"
    fi
}

# begin_manifest: before the first file.
begin_manifest() {
    begin_made=
    for begin_directory in ./ share/ share/mica/; do
        [ -d "$prefix/$begin_directory" ] || begin_made="$begin_made $begin_directory"
    done
    # An installation that is older than the manifest made this directory anew each time. Another program's of this name stays.
    if [ ! -f "$prefix/$MANIFEST" ] && [ ! -f "$prefix/$MANIFEST.new" ] && [ -f "$prefix/share/mica/mica.supp" ]; then
        rm -rf "$prefix/share/mica"
    fi
    mkdir -p "$prefix/share/mica"
    adopt_interrupted
    touch "$prefix/$MANIFEST"
    # Directories that an earlier installation made are of this one.
    # shellcheck disable=SC2086 # a list
    { paths <"$prefix/$MANIFEST" | grep '/$' || true; printf '%s\n' $begin_made; } | sed '/^$/d' >"$prefix/$MANIFEST.new"
}

# finish_manifest: after the last file. What an earlier installation has put there and this one has not goes.
finish_manifest() {
    sort -u "$prefix/$MANIFEST.new" >"$scratch/installed"
    paths <"$prefix/$MANIFEST" | sort -u | comm -23 - "$scratch/installed" >"$scratch/gone"
    awk 'NR == FNR { gone[$0]; next } { path = $0; sub(/^[^ ]*  /, "", path) } path in gone' \
        "$scratch/gone" "$prefix/$MANIFEST" | take_back
    grep '/$' "$scratch/installed" | remove_empty
    described <"$scratch/installed" | sort -k 2 >"$scratch/manifest"
    install -m 644 "$scratch/manifest" "$prefix/$MANIFEST.new"
    mv -f "$prefix/$MANIFEST.new" "$prefix/$MANIFEST"
}
