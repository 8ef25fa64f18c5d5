#!/bin/sh
# bare_root.sh SCRIPT [ARGUMENT...]: runs a script of this source tree in a bare Debian 12, in which nothing but the essential packages is
# installed. The source tree is at /mica there, read-only, and the packages of `make deb` at /debs. What the script installs or writes lies
# in memory and is gone when it ends. The bare Debian itself is made once, in target/root (a minute and 300 MB). Needs root, and Debian's
# mirror of this machine.
. "$(dirname "$0")/common.sh"

bare=$BUILD/root

# Makes the bare Debian.
make_root() {
    # shellcheck disable=SC2016 # awk's
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep '/debian/\?$' | head -n 1)
    rm -rf "$bare" "$bare.new"
    step root debootstrap --variant=minbase bookworm "$bare.new" "${mirror:-http://deb.debian.org/debian}"
    rm -f "$bare.new"/var/cache/apt/archives/*.deb
    mv "$bare.new" "$bare"
}

# In namespaces of its own: mounts the bare Debian below a layer of memory, and enters it.
enter() {
    mount --make-rprivate /
    mount -t tmpfs -o size=8G tmpfs "$BUILD/root.layer"
    cd "$BUILD/root.layer"
    mkdir upper work root
    mount -t overlay -o "lowerdir=$bare,upperdir=upper,workdir=work" overlay root
    mkdir -p root/mica root/debs
    mount --rbind "$ROOT" root/mica
    mount -o remount,bind,ro root/mica
    [ ! -d "$BUILD/deb" ] || mount --bind "$BUILD/deb" root/debs
    mount -t proc proc root/proc
    mount --rbind /sys root/sys
    mount --rbind /dev root/dev
    # The machine's own mirror, names of hosts, and settings of apt.
    cp /etc/resolv.conf /etc/hosts root/etc/
    cp -r /etc/apt/apt.conf.d/. root/etc/apt/apt.conf.d/
    # Daemons of packages are not started.
    printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
    chmod 755 root/usr/sbin/policy-rc.d
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" chroot root sh -c 'cd /mica && exec sh "$@"' sh "$@"
}

if [ "${1:?usage: bare_root.sh SCRIPT [ARGUMENT...]}" = --enter ]; then
    shift
    enter "$@"
fi
[ "$(id -u)" = 0 ] || fail "bare_root.sh: a root of its own needs root; call it by sudo"
[ -f "$1" ] || fail "bare_root.sh: there is no script $ROOT/$1"
sh scripts/setup.sh root
[ -d "$bare" ] || make_root
mkdir -p "$BUILD/root.layer"
exec unshare --mount --pid --fork --kill-child sh "$0" --enter "$@"
