#!/bin/sh
# contained.sh COMMAND...: runs it so that nothing of it outlives it, however it ends: with process numbers of its own, so that all
# that it started ends with it, and with network namespaces of its own, whose names go with its mounts. It ends with the process that
# started it, too. Where the kernel or this user's rights do not permit that, it runs as any command.
#
# In it /proc/kallsyms is empty: Debian's libfabric reads all of it in each rank of a job that spans nodes, for a tenth of a second
# (docs/design/net.md).
set -eu

inside='
mount -t tmpfs tmpfs /run/netns 2>/dev/null || :
mount --bind /dev/null /proc/kallsyms 2>/dev/null || :
exec "$@"'
contain() {
    setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child=KILL --mount-proc sh -c "$inside" sh "$@"
}
if [ -z "${MICA_CONTAINED-}" ] && contain true 2>/dev/null; then
    export MICA_CONTAINED=1
    mkdir -p /run/netns 2>/dev/null || :
    exec setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child=KILL --mount-proc sh -c "$inside" sh "$@"
fi
exec "$@"
