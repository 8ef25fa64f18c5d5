#!/bin/sh
# Makes crates/channel/src/net/bindings.rs: the part of libfabric's ABI that the net channel uses, from the headers of
# Debian's libfabric-dev 1.17. To be run by hand when more of the ABI is needed; the result is committed, so that building Mica
# needs neither libclang nor libfabric's headers.
#
# Needs: bindgen (cargo install bindgen-cli), libclang, libfabric-dev, rustfmt.
#
# Everything after 1.17 is left out on purpose: a structure that the library fills grows at its end only, and is always allocated by
# the library (fi_dupinfo, fi_getinfo) where it may have grown.
set -eu
cd "$(dirname "$0")/.."
bindgen=${BINDGEN:-bindgen}
to=crates/channel/src/net/bindings.rs

headers=$(mktemp --suffix=.h)
trap 'rm -f "$headers"' EXIT
for header in fabric fi_domain fi_endpoint fi_eq fi_cm fi_rma fi_atomic fi_errno; do
    echo "#include <rdma/$header.h>"
done >"$headers"

"$bindgen" "$headers" \
    --rust-target 1.85 --rust-edition 2024 \
    --use-core --ctypes-prefix libc \
    --no-doc-comments --default-enum-style consts --no-prepend-enum-name \
    --with-derive-default \
    --allowlist-type 'fi_(info|tx_attr|rx_attr|ep_attr|domain_attr|fabric_attr|device_attr|link_attr|context2)' \
    --allowlist-type 'fid|fid_(fabric|domain|av|cq|ep|mr|nic)' \
    --allowlist-type 'fi_ops(|_fabric|_domain|_av|_cq|_ep|_mr|_msg|_rma|_atomic|_cm)' \
    --allowlist-type 'fi_(av_attr|cq_attr|mr_attr|atomic_attr|msg_rma|rma_iov|cq_msg_entry|cq_err_entry)' \
    --allowlist-type 'fi_(av_type|wait_obj|cq_format|datatype|op|ep_type|threading|progress)' \
    --opaque-type 'fi_(bus_attr|eq_attr|wait_attr|poll_attr|cntr_attr|collective_attr|av_set_attr)' \
    --opaque-type 'fi_msg(|_atomic)' --opaque-type 'fid_(eq|pep|stx|cntr|wait|poll|av_set|mc)' --opaque-type 'fi_ioc' \
    --opaque-type 'fi_ops_(tagged|collective)' \
    --blocklist-type 'iovec|size_t|ssize_t|__ssize_t|__size_t|__u?int(8|16|32|64)_t|u?int(8|16|32|64)_t' \
    --raw-line 'use libc::iovec;' \
    --allowlist-var 'FI_(ADDR_STR|FORMAT_UNSPEC|SOCKADDR|SOCKADDR_IN|SOCKADDR_IN6)' \
    --allowlist-var 'FI_(GETWAIT|ENABLE)' \
    >"$to.tmp"

# What bindgen cannot see: macros with casts. Taken from the same headers by the compiler.
constants='FI_MSG FI_RMA FI_ATOMIC FI_READ FI_WRITE FI_RECV FI_SEND FI_REMOTE_READ FI_REMOTE_WRITE FI_TRANSMIT FI_COMPLETION
    FI_DELIVERY_COMPLETE FI_TRANSMIT_COMPLETE FI_INJECT_COMPLETE FI_FETCH_ATOMIC FI_COMPARE_ATOMIC FI_CONTEXT FI_CONTEXT2 FI_ORDER_SAS FI_ADDR_UNSPEC
    FI_ADDR_NOTAVAIL FI_MR_LOCAL FI_MR_VIRT_ADDR FI_MR_ALLOCATED FI_MR_PROV_KEY FI_MR_ENDPOINT FI_LOCAL_COMM FI_REMOTE_COMM FI_SELECTIVE_COMPLETION'
errors='FI_EAGAIN FI_ENODATA FI_ENOSYS FI_EAVAIL FI_ETRUNC FI_ECANCELED FI_ETOOSMALL FI_EINVAL FI_EOPNOTSUPP FI_ENOPROTOOPT FI_EBUSY FI_ENOKEY'
program=$(mktemp --suffix=.c)
trap 'rm -f "$headers" "$program" "$program.out"' EXIT
{
    cat "$headers"
    cat <<'END'
#include <stdio.h>
#define WORD(name) printf("pub const " #name ": u64 = 0x%llx;\n", (unsigned long long)(name));
#define ERROR(name) printf("pub const " #name ": isize = %d;\n", (int)(name));
int main(void) {
END
    for name in $constants; do echo "WORD($name)"; done
    for name in $errors; do echo "ERROR($name)"; done
    echo 'return 0; }'
} >"$program"
cc -o "$program.out" "$program"

{
    echo "//! The part of libfabric's ABI that the net channel uses, in version 1.17. Made by bindings/fabric.sh: do not edit."
    echo
    echo '#![allow(missing_docs, missing_debug_implementations, non_camel_case_types, non_upper_case_globals, dead_code)]'
    echo '#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]'
    echo
    grep -v '^/\* automatically generated' "$to.tmp"
    echo
    "$program.out"
} >"$to"
rm -f "$to.tmp"
rustfmt --edition 2024 "$to"
