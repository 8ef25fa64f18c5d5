# shellcheck shell=sh disable=SC2154 # $prefix and $scratch are install.sh's
# Read by install.sh: manual pages (share/man) and completion for bash, zsh and fish (share) of what is installed in $prefix. What the
# commands take comes from themselves: mpiexec and mica print their pages and scripts, and the page of mpicc is its help. Commands of another
# architecture run by what MICA_RUN names (scripts/wheel.sh).

pages=$scratch/share
man1=$pages/man/man1
man3=$pages/man/man3
bash=$pages/bash-completion/completions
zsh=$pages/zsh/site-functions
fish=$pages/fish/vendor_completions.d
mkdir -p "$man1" "$man3" "$bash" "$zsh" "$fish"
# installed COMMAND ARGUMENT...: runs a command of the installation.
installed() {
    installed_name=$1
    shift
    # shellcheck disable=SC2086 # several words
    ${MICA_RUN-} "$prefix/bin/$installed_name" "$@"
}

# made FILE COMMAND...: a file with the command's output.
made() {
    file=$1
    shift
    "$@" >"$file.new"
    mv -f "$file.new" "$file"
}

# The functions: bindings/man.py says how their pages stand in one file.
awk -v folder="$man3" '
    /^=== .*\.3$/ { if (page) close(page); page = folder "/" $2; printf "" >page; next }
    /^=== / { name = $2; next }
    /^@/ { printf "%s", shared[substr($0, 2)] >page; next }
    page { print >page; next }
    name { shared[name] = shared[name] $0 "\n" }
' docs/man/functions.3

# mpicc_page: its help as a page. The first line is how it is called; options stand two columns in, what they do from column 33 on or so,
# and lines of 33 spaces go on. The installation's folder is called PREFIX, since the tree can be moved.
mpicc_page() {
    "$prefix/bin/mpicc" -help | sed "s|$(readlink -f "$prefix")|PREFIX|g" | awk -v version="$(version)" '
        function roff(text) {
            gsub(/\\/, "\\e", text)
            gsub(/-/, "\\-", text)
            return "\\&" text
        }
        NR == 1 {
            sub(/^Usage: mpicc /, "")
            print ".TH MPICC 1 \"\" \"Mica " version "\" Mica\n.nh\n.ad l\n.SH NAME"
            print "mpicc, mpicxx, mpic++, mpiCC, mpifort, mpif90, mpif77 \\- compile and link MPI programs in C, C++ and Fortran"
            print ".SH SYNOPSIS\n.B mpicc\n" roff($0) "\n.PP\n.B mpicxx\n" roff($0) "\n.PP\n.B mpifort\n" roff($0) "\n.SH DESCRIPTION"
            next
        }
        /^  [^ ]/ {
            if (!options++) print ".SH OPTIONS"
            at = match(substr($0, 3), /   *[^ ]/)
            head = at ? substr($0, 3, at - 1) : substr($0, 3)
            print ".TP\n\\fB" substr(roff(head), 3) "\\fP"
            if (at) { sub(/^ */, "", $0); print roff(substr($0, at + RLENGTH - 1)) }
            next
        }
        NF { sub(/^ +/, ""); print roff($0) }
        END { print ".SH SEE ALSO\n.BR mpiexec (1),\n.BR MPI (3)" }'
}
made "$man1/mpicc.1" mpicc_page
made "$man1/mpiexec.1" installed mpiexec --man
for name in mpirun=mpiexec mpicxx=mpicc mpic++=mpicc mpiCC=mpicc mpifort=mpicc mpif90=mpicc mpif77=mpicc; do
    made "$man1/${name%=*}.1" echo ".so man1/${name#*=}.1"
done
installed mica man "$man1"
# The date of the pages: of this version, so that each installation of it has the same.
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)
else
    date=$(git log -1 --format=%cs 2>/dev/null || date -r Cargo.toml +%F)
fi
for page in "$man1"/mica*.1 "$man1/mpicc.1" "$man1/mpiexec.1"; do
    made "$page" sed "/^\.TH /s/ \"\" / $date /" "$page"
done

made "$bash/mpiexec" installed mpiexec --completion bash
made "$zsh/_mpiexec" installed mpiexec --completion zsh
made "$fish/mpiexec.fish" installed mpiexec --completion fish
ln -sfn mpiexec "$bash/mpirun"
ln -sfn mpiexec.fish "$fish/mpirun.fish"
made "$bash/mica" installed mica completion bash
made "$zsh/_mica" installed mica completion zsh
made "$fish/mica.fish" installed mica completion fish
tree "$pages" "$prefix/share"
