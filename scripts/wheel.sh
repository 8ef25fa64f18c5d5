#!/bin/sh
# wheel.sh [ARCHITECTURE]: `make wheel`: the Python wheel, into target/wheel, for x86_64 (the default: this machine's) or aarch64. Needs
# the network: tools from PyPI, which go into an environment of their own, and hwloc's source from Debian. Ten minutes on two cores.
#
# It runs wherever glibc is at least that of manylinux_2_28: zig links against stubs of that version's libraries, and what the build needs
# beyond glibc is linked statically (hwloc, without udev). `make wheel-test` shows that it works (scripts/wheel_test.sh).
. "$(dirname "$0")/common.sh"

GLIBC=2.28
SIZE_MAX=12000000    # bytes
arch=${1:-$(uname -m)}
target=$arch-unknown-linux-gnu
tag=py3-none-manylinux_$(echo $GLIBC | tr . _)_$arch
wheels=$BUILD/wheel
tools=$wheels/tools
hwloc=$wheels/$arch/hwloc
tree=$wheels/$arch/tree
compiler="$tools/bin/python -m ziglang cc -target $arch-linux-gnu.$GLIBC"

# What zig and cargo-zigbuild keep.
export ZIG_GLOBAL_CACHE_DIR="$wheels/cache" ZIG_LOCAL_CACHE_DIR="$wheels/cache" CARGO_ZIGBUILD_CACHE_DIR="$wheels/cache"

# The functions are run by `step`, where `set -e` does not hold: hence the chains.

# The tools, anew when their list changes.
tools() {
    cmp -s scripts/wheel-requirements.txt "$tools/requirements.txt" || {
        rm -rf "$tools" &&
            python3 -m venv "$tools" &&
            "$tools/bin/pip" install --disable-pip-version-check -r scripts/wheel-requirements.txt &&
            cp scripts/wheel-requirements.txt "$tools/requirements.txt"
    } && {
        rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    }
}

# hwloc's source, in $wheels/hwloc-source, from where Debian's packages come from.
hwloc_source() {
    [ ! -f "$wheels/hwloc-source/COPYING" ] || return 0
    rm -rf "$wheels/apt" "$wheels/hwloc-source.new"
    mkdir -p "$wheels/apt/lists/partial" "$wheels/hwloc-source.new"
    # A list of either format, which apt-get tells apart by the name.
    if [ -f /etc/apt/sources.list.d/debian.sources ]; then
        list=$wheels/apt/source.sources
        sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$list"
    else
        list=$wheels/apt/source.list
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$list"
    fi
    from_debian update &&
        (cd "$wheels/apt" && from_debian source --download-only hwloc) &&
        tar -xf "$wheels"/apt/hwloc_*.orig.tar.* -C "$wheels/hwloc-source.new" --strip-components=1 &&
        mv "$wheels/hwloc-source.new" "$wheels/hwloc-source"
}
from_debian() {
    apt-get -o Dir::Etc::sourcelist="$list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root \
        -o Dir::State::lists="$wheels/apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}

# What the commands need of it: the machine's topology, from the kernel's files. Plugins and other libraries would have to be there at run
# time.
hwloc_library() {
    [ ! -f "$hwloc/lib/pkgconfig/hwloc.pc" ] || return 0
    rm -rf "$hwloc" "$hwloc-build"
    mkdir -p "$hwloc-build"
    cd "$hwloc-build" &&
        "$wheels/hwloc-source/configure" --host="$arch-linux-gnu" --prefix="$hwloc" --localstatedir=/var CC="$compiler" CFLAGS=-O2 \
            AR="$tools/bin/python -m ziglang ar" RANLIB="$tools/bin/python -m ziglang ranlib" \
            --enable-static --disable-shared --disable-libudev --disable-pci --disable-libxml2 --disable-cairo --disable-opencl \
            --disable-cuda --disable-nvml --disable-rsmi --disable-levelzero --disable-gl --disable-plugins --disable-readme &&
        make -C include install &&
        make -C hwloc install &&
        make install-hwlocpkgconfigDATA
}

# The installation, as anybody's; stripped, since debugging information is five times as long as the rest, and with commands that are
# optimized across crates: that takes minutes, and a quarter of a megabyte off the wheel.
installation() {
    rm -rf "$tree"
    name=$(echo "$target" | tr - _)
    # What install.sh does with compiled files of another architecture takes tools that know it.
    if [ "$arch" != "$(uname -m)" ]; then
        export OBJCOPY="$arch-linux-gnu-objcopy" MICA_RUN="qemu-$arch -L /usr/$arch-linux-gnu"
    fi
    env PATH="$tools/bin:$PATH" MICA_CARGO_BUILD="cargo zigbuild --target $target.$GLIBC --target-dir $wheels/cargo" \
        CARGO_TARGET_DIR="$wheels/cargo/$target" MICA_COMMANDS_PROFILE=commands MICA_CC="$compiler" \
        CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_COMMANDS_LTO=thin CARGO_PROFILE_COMMANDS_CODEGEN_UNITS=1 \
        PKG_CONFIG_ALLOW_CROSS=1 "PKG_CONFIG_LIBDIR_$name=$hwloc/lib/pkgconfig" \
        sh scripts/install.sh "$tree"
}

# The licences of what build.sh compiles in. Those of crates are what deny.toml allows.
licences() {
    "$tools/bin/python" scripts/third_party.py "$target" mica-mpi5 mica-mpich mica-fortran mica-mpich-fortran mica-profile-preload mica-sim-plugin mica-launch mica \
        >"$wheels/crates"
}

# The tag is true, the metadata are well formed, and the wheel is short.
audit() {
    "$tools/bin/auditwheel" show "$wheel" | tee "$LOGS/wheel-auditwheel.log" &&
        tr '\n' ' ' <"$LOGS/wheel-auditwheel.log" | grep -q "following platform tag: \"${tag#py3-none-}\"" &&
        "$tools/bin/twine" check --strict "$wheel" &&
        [ "$(wc -c <"$wheel")" -le $SIZE_MAX ]
}

case $arch in
    x86_64 | aarch64) ;;
    *) fail "wheel.sh: the wheel is for x86_64 or aarch64, not for '$arch'" ;;
esac
mkdir -p "$wheels"
step wheel-tools tools
step wheel-hwloc-source hwloc_source
step "wheel-hwloc-$arch" hwloc_library
step "wheel-build-$arch" installation
wheel=$wheels/mica_mpi-$(version)-$tag.whl
step "wheel-licences-$arch" licences
step "wheel-pack-$arch" "$tools/bin/python" scripts/wheel.py "$tree" --tag "$tag" --cc "$compiler" \
    --ld "$tools/bin/python -m ziglang ld.lld" --bundled "hwloc=BSD-3-Clause=$wheels/hwloc-source/COPYING" \
    --bundled "crates=MIT AND Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND Zlib=$wheels/crates" --output "$wheels"
step "wheel-audit-$arch" audit
say "$wheel: $(wc -c <"$wheel") bytes"
