#!/bin/sh
# Two hosts on one machine, to try jobs over several nodes by hand: network namespaces that are joined by a veth pair and
# reach nothing else. Each is called by its address. Needs root and iproute2.
#
#   scripts/two-hosts.sh make                  prints the two names
#   scripts/two-hosts.sh remove
#
#   set -- $(scripts/two-hosts.sh make)
#   ip netns exec $1 mpiexec --launcher ssh --launcher-exec "$PWD/scripts/two-hosts.sh" -hosts $1,$2 -ppn 2 ./program
#
# Called with anything else it takes its arguments as ssh does, [OPTIONS] HOST COMMAND..., and runs the command there: it is the
# remote shell of the launcher.
set -eu

# A documentation network (RFC 5737): nobody's addresses.
A=198.51.100.1
B=198.51.100.2
INTERFACE=mica0

remove() {
    for host in $A $B; do
        ip -n "$host" link delete $INTERFACE 2>/dev/null || :
        ip netns delete "$host" 2>/dev/null || :
    done
}

case ${1-} in
    make)
        for host in $A $B; do
            if ip netns list | grep -q "^$host\b"; then
                echo "two-hosts.sh: host $host is there already; '$0 remove' removes both" >&2
                exit 1
            fi
        done
        trap 'remove' EXIT
        for host in $A $B; do
            ip netns add "$host"
        done
        ip link add $INTERFACE netns $A type veth peer name $INTERFACE netns $B
        for host in $A $B; do
            ip -n "$host" address add "$host/30" dev $INTERFACE
            ip -n "$host" link set lo up
            ip -n "$host" link set $INTERFACE up
        done
        trap - EXIT
        echo "$A $B"
        ;;
    remove)
        remove
        ;;
    *)
        while :; do
            case ${1-} in
                -o | -l | -p | -i | -F) shift 2 ;;
                -*) shift ;;
                *) break ;;
            esac
        done
        host=${1-}
        case $host in
            "$A" | "$B") ;;
            *)
                echo "two-hosts.sh: expected make, remove, or HOST COMMAND...; '$host' is none of these" >&2
                exit 255
                ;;
        esac
        shift
        exec ip netns exec "$host" sh -c "$*"
        ;;
esac
