#!/bin/sh
# Makes crates/channel/src/net/bindings.rs: the part of libfabric's ABI that the net channel uses, from the headers of
# Debian's libfabric-dev 1.17. To be run by hand when more of the ABI is needed; the result is committed, so that building Mica
# needs neither libclang nor libfabric's headers.
#
# Needs: bindgen 0.72 (cargo install bindgen-cli), libclang, libfabric-dev, rustfmt.
#
# Everything after 1.17 is left out on purpose: a structure that the library fills grows at its end only, and is always allocated by
# the library (fi_dupinfo, fi_getinfo) where it may have grown.
set -eu
cd "$(dirname "$0")/.."
bindgen=${BINDGEN:-bindgen}
to=crates/channel/src/net/bindings.rs

# Entries of the library's tables that the channel calls. Of others only the place is kept, and that only before one that is called.
called='close bind control domain trywait av_open cq_open endpoint insert read readerr strerror getname inject send recv writemsg reg'
# Structures that the channel allocates, or writes to: their layout is asserted.
filled='fi_info fi_tx_attr fi_rx_attr fi_ep_attr fi_domain_attr fi_fabric_attr fi_av_attr fi_cq_attr fi_cq_msg_entry fi_cq_err_entry
    fi_context2 fi_msg_rma fi_rma_iov'
# The library's objects with their tables, and what else it allocates and the channel reads.
tables='fid fid_t fid_fabric fid_domain fid_av fid_cq fid_ep fid_mr fid_nic fi_addr_t fi_link_attr
    fi_ops fi_ops_fabric fi_ops_domain fi_ops_mr fi_ops_av fi_ops_cq fi_ops_cm fi_ops_msg fi_ops_rma'
# Types to which there are only pointers that the channel does not follow.
opaque='fi_bus_attr fi_device_attr fi_ops_ep fi_ops_atomic fi_ops_tagged fi_ops_collective fid_wait'
# Enumerations: of their constants, those that are used come by the compiler.
enumerations='fi_av_type fi_progress fi_threading fi_resource_mgmt fi_ep_type fi_wait_obj fi_cq_format fi_cq_wait_cond fi_link_state'

headers=$(mktemp --suffix=.h)
trap 'rm -f "$headers"' EXIT
for header in fabric fi_domain fi_endpoint fi_eq fi_cm fi_rma fi_errno; do
    echo "#include <rdma/$header.h>"
done >"$headers"

set --
for name in $filled $tables; do
    set -- "$@" --allowlist-type "$name"
done
for name in $opaque; do
    set -- "$@" --raw-line "pub type $name = libc::c_void;"
done
for name in $enumerations; do
    set -- "$@" --raw-line "pub type $name = libc::c_uint;"
done
"$bindgen" "$headers" "$@" \
    --no-recursive-allowlist \
    --rust-target 1.85 --rust-edition 2024 \
    --use-core --ctypes-prefix libc \
    --no-doc-comments --no-derive-debug \
    --raw-line 'use libc::iovec;' \
    --raw-line 'pub type Uncalled = ::core::option::Option<unsafe extern "C" fn()>;' \
    >"$to.tmp"

# What bindgen cannot see: macros with casts. Taken from the same headers by the compiler, as are single constants of long enumerations.
constants='FI_MSG FI_RMA FI_ATOMIC FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE FI_TRANSMIT FI_COMPLETION
    FI_DELIVERY_COMPLETE FI_CONTEXT FI_CONTEXT2 FI_ORDER_SAS FI_ADDR_UNSPEC FI_ADDR_NOTAVAIL
    FI_MR_LOCAL FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_ENDPOINT'
numbers='FI_AV_TABLE FI_PROGRESS_MANUAL FI_THREAD_DOMAIN FI_RM_ENABLED FI_EP_RDM FI_CQ_FORMAT_MSG FI_WAIT_NONE FI_WAIT_FD
    FI_ADDR_STR FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_ADDR_EFA FI_GETWAIT FI_ENABLE'
errors='FI_EAGAIN FI_ENODATA FI_ENOSYS FI_EAVAIL FI_ETRUNC FI_EINVAL FI_ENOKEY'
program=$(mktemp --suffix=.c)
trap 'rm -f "$headers" "$program" "$program.out"' EXIT
{
    cat "$headers"
    cat <<'END'
#include <stdio.h>
#define WORD(name) printf("pub const " #name ": u64 = 0x%llx;\n", (unsigned long long)(name));
#define NUMBER(name) printf("pub const " #name ": u32 = %u;\n", (unsigned)(name));
#define ERROR(name) printf("pub const " #name ": isize = %d;\n", (int)(name));
int main(void) {
END
    for name in $constants; do echo "WORD($name)"; done
    for name in $numbers; do echo "NUMBER($name)"; done
    for name in $errors; do echo "ERROR($name)"; done
    echo 'return 0; }'
} >"$program"
cc -o "$program.out" "$program"

{
    echo "//! The part of libfabric's ABI that the net channel uses, in version 1.17."
    echo '//! Made by bindings/fabric.sh: do not edit.'
    echo
    echo '#![allow(missing_docs, missing_debug_implementations, non_camel_case_types, non_upper_case_globals, dead_code)]'
    echo '#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]'
    echo
    cat <<'END'
/// The size and the alignment of a structure, and the offsets of its fields, in bytes.
macro_rules! layout {
    ($name:ident $size:literal $alignment:literal: $($field:ident $offset:literal),*) => {
        const _: () = {
            assert!(size_of::<$name>() == $size && align_of::<$name>() == $alignment);
            $(assert!(::core::mem::offset_of!($name, $field) == $offset);)*
        };
    };
}

END
    awk -v called="$called" -v filled="$filled" '
        BEGIN { split(called, c); for (i in c) is_called[c[i]]; split(filled, f); for (i in f) is_filled[f[i]] }
        /^\/\* automatically generated/ { next }
        # Assertions of a layout, from the attribute to the end of the constant: a line each.
        /^#\[allow\(clippy::unnecessary_operation/ { in_layout = 1; layout = ""; next }
        in_layout && /^};/ {
            in_layout = 0
            if (!(name in is_filled)) next
            # rustfmt leaves this as it is.
            print "layout! {\n    " name " " size " " alignment ":"
            for (; length(layout) > 92; layout = substr(layout, cut + 1)) {
                for (cut = 92; substr(layout, cut, 1) != " "; cut--) ;
                print "    " substr(layout, 1, cut - 1)
            }
            print "    " layout "\n}"
            next
        }
        in_layout {
            if ($0 ~ /Size of/) { match($0, /of [a-z_0-9]+"/); name = substr($0, RSTART + 3, RLENGTH - 4) }
            if ($0 ~ /Offset of/) { match($0, /::[a-z_0-9]+"/); what = substr($0, RSTART + 2, RLENGTH - 3) }
            if (match($0, /- [0-9]+usize/)) {
                number = substr($0, RSTART + 2, RLENGTH - 7)
                if ($0 ~ /size_of/) size = number
                else if ($0 ~ /align_of/) alignment = number
                else layout = layout (layout ? ", " : "") what " " number
            }
            next
        }
        # Entries of a table.
        /^pub struct / { is_table = ($3 ~ /^fi_ops/) }
        is_table && !skipped && /^    pub [a-z_0-9]+: ::core::option::Option</ {
            name = substr($2, 1, length($2) - 1)
            if (!(name in is_called)) { before = before "    pub " name ": Uncalled,\n"; if ($0 !~ />,$/) skipped = "^    >,"; next }
        }
        skipped { if ($0 ~ skipped) skipped = ""; next }
        is_table && before { if ($0 != "}") printf "%s", before; before = "" }
        { print }' "$to.tmp"
    echo
    "$program.out"
} >"$to"
rm -f "$to.tmp"
rustfmt --edition 2024 "$to"
