//! The part of libfabric's ABI that the net channel uses, in version 1.17.
//! Made by bindings/fabric.sh: do not edit.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code
)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]

/// The size and the alignment of a structure, and the offsets of its fields, in bytes.
macro_rules! layout {
    ($name:ident $size:literal $alignment:literal: $($field:ident $offset:literal),*) => {
        const _: () = {
            assert!(size_of::<$name>() == $size && align_of::<$name>() == $alignment);
            $(assert!(::core::mem::offset_of!($name, $field) == $offset);)*
        };
    };
}

pub type fi_bus_attr = libc::c_void;
pub type fi_device_attr = libc::c_void;
pub type fi_ops_ep = libc::c_void;
pub type fi_ops_atomic = libc::c_void;
pub type fi_ops_tagged = libc::c_void;
pub type fi_ops_collective = libc::c_void;
pub type fid_wait = libc::c_void;
pub type fi_av_type = libc::c_uint;
pub type fi_progress = libc::c_uint;
pub type fi_threading = libc::c_uint;
pub type fi_resource_mgmt = libc::c_uint;
pub type fi_ep_type = libc::c_uint;
pub type fi_wait_obj = libc::c_uint;
pub type fi_cq_format = libc::c_uint;
pub type fi_cq_wait_cond = libc::c_uint;
pub type fi_link_state = libc::c_uint;
use libc::iovec;
pub type Uncalled = ::core::option::Option<unsafe extern "C" fn()>;

pub type fid_t = *mut fid;
pub type fi_addr_t = u64;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}
layout! {
    fi_tx_attr 80 8:
    caps 0, mode 8, op_flags 16, msg_order 24, comp_order 32, inject_size 40, size 48,
    iov_limit 56, rma_iov_limit 64, tclass 72
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}
layout! {
    fi_rx_attr 64 8:
    caps 0, mode 8, op_flags 16, msg_order 24, comp_order 32, total_buffered_recv 40, size 48,
    iov_limit 56
}
#[repr(C)]
pub struct fi_ep_attr {
    pub type_: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}
layout! {
    fi_ep_attr 96 8:
    type_ 0, protocol 4, protocol_version 8, max_msg_size 16, msg_prefix_size 24,
    max_order_raw_size 32, max_order_war_size 40, max_order_waw_size 48, mem_tag_format 56,
    tx_ctx_cnt 64, rx_ctx_cnt 72, auth_key_size 80, auth_key 88
}
#[repr(C)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut libc::c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub data_progress: fi_progress,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: libc::c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}
layout! {
    fi_domain_attr 192 8:
    domain 0, name 8, threading 16, control_progress 20, data_progress 24, resource_mgmt 28,
    av_type 32, mr_mode 36, mr_key_size 40, cq_data_size 48, cq_cnt 56, ep_cnt 64, tx_ctx_cnt
    72, rx_ctx_cnt 80, max_ep_tx_ctx 88, max_ep_rx_ctx 96, max_ep_stx_ctx 104, max_ep_srx_ctx
    112, cntr_cnt 120, mr_iov_limit 128, caps 136, mode 144, auth_key 152, auth_key_size 160,
    max_err_data 168, mr_cnt 176, tclass 184
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut libc::c_char,
    pub prov_name: *mut libc::c_char,
    pub prov_version: u32,
    pub api_version: u32,
}
layout! {
    fi_fabric_attr 32 8:
    fabric 0, name 8, prov_name 16, prov_version 24, api_version 28
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut libc::c_void,
    pub dest_addr: *mut libc::c_void,
    pub handle: fid_t,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    pub nic: *mut fid_nic,
}
layout! {
    fi_info 120 8:
    next 0, caps 8, mode 16, addr_format 24, src_addrlen 32, dest_addrlen 40, src_addr 48,
    dest_addr 56, handle 64, tx_attr 72, rx_attr 80, ep_attr 88, domain_attr 96, fabric_attr
    104, nic 112
}
#[repr(C)]
pub struct fi_link_attr {
    pub address: *mut libc::c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut libc::c_char,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops {
    pub size: usize,
    pub close: ::core::option::Option<unsafe extern "C" fn(fid: *mut fid) -> libc::c_int>,
    pub bind: ::core::option::Option<
        unsafe extern "C" fn(fid: *mut fid, bfid: *mut fid, flags: u64) -> libc::c_int,
    >,
    pub control: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            command: libc::c_int,
            arg: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut libc::c_void,
    pub ops: *mut fi_ops,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub passive_ep: Uncalled,
    pub eq_open: Uncalled,
    pub wait_open: Uncalled,
    pub trywait: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            fids: *mut *mut fid,
            count: libc::c_int,
        ) -> libc::c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut libc::c_void,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_context2 {
    pub internal: [*mut libc::c_void; 8usize],
}
layout! {
    fi_context2 64 8:
    internal 0
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut libc::c_void,
    pub flags: u64,
    pub len: usize,
}
layout! {
    fi_cq_msg_entry 24 8:
    op_context 0, flags 8, len 16
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_cq_err_entry {
    pub op_context: *mut libc::c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut libc::c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: libc::c_int,
    pub prov_errno: libc::c_int,
    pub err_data: *mut libc::c_void,
    pub err_data_size: usize,
}
layout! {
    fi_cq_err_entry 80 8:
    op_context 0, flags 8, len 16, buf 24, data 32, tag 40, olen 48, err 56, prov_errno 60,
    err_data 64, err_data_size 72
}
#[repr(C)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: libc::c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
}
layout! {
    fi_cq_attr 40 8:
    size 0, flags 8, format 16, wait_obj 20, signaling_vector 24, wait_cond 28, wait_set 32
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: ::core::option::Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut libc::c_void, count: usize) -> isize,
    >,
    pub readfrom: Uncalled,
    pub readerr: ::core::option::Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
    >,
    pub sread: Uncalled,
    pub sreadfrom: Uncalled,
    pub signal: Uncalled,
    pub strerror: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            prov_errno: libc::c_int,
            err_data: *const libc::c_void,
            buf: *mut libc::c_char,
            len: usize,
        ) -> *const libc::c_char,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}
#[repr(C)]
pub struct fi_av_attr {
    pub type_: fi_av_type,
    pub rx_ctx_bits: libc::c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const libc::c_char,
    pub map_addr: *mut libc::c_void,
    pub flags: u64,
}
layout! {
    fi_av_attr 48 8:
    type_ 0, rx_ctx_bits 4, count 8, ep_per_node 16, name 24, map_addr 32, flags 40
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            addr: *const libc::c_void,
            count: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut libc::c_void,
    pub key: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_av_attr,
            av: *mut *mut fid_av,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub cq_open: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_cq_attr,
            cq: *mut *mut fid_cq,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub endpoint: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            buf: *const libc::c_void,
            len: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            src_addr: fi_addr_t,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub recvv: Uncalled,
    pub recvmsg: Uncalled,
    pub send: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            dest_addr: fi_addr_t,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub sendv: Uncalled,
    pub sendmsg: Uncalled,
    pub inject: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            dest_addr: fi_addr_t,
        ) -> isize,
    >,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut fi_ops_collective,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Uncalled,
    pub getname: ::core::option::Option<
        unsafe extern "C" fn(
            fid: fid_t,
            addr: *mut libc::c_void,
            addrlen: *mut usize,
        ) -> libc::c_int,
    >,
    pub getpeer: Uncalled,
    pub connect: Uncalled,
    pub listen: Uncalled,
    pub accept: Uncalled,
    pub reject: Uncalled,
    pub shutdown:
        ::core::option::Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> libc::c_int>,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}
layout! {
    fi_rma_iov 24 8:
    addr 0, len 8, key 16
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_msg_rma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut libc::c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut libc::c_void,
    pub data: u64,
}
layout! {
    fi_msg_rma 64 8:
    msg_iov 0, desc 8, iov_count 16, addr 24, rma_iov 32, rma_iov_count 40, context 48, data 56
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *mut libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub readv: Uncalled,
    pub readmsg: Uncalled,
    pub write: Uncalled,
    pub writev: Uncalled,
    pub writemsg: ::core::option::Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize,
    >,
    pub inject: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> isize,
    >,
}

pub const FI_MSG: u64 = 0x2;
pub const FI_RMA: u64 = 0x4;
pub const FI_ATOMIC: u64 = 0x10;
pub const FI_READ: u64 = 0x100;
pub const FI_WRITE: u64 = 0x200;
pub const FI_RECV: u64 = 0x400;
pub const FI_SEND: u64 = 0x800;
pub const FI_REMOTE_READ: u64 = 0x1000;
pub const FI_REMOTE_WRITE: u64 = 0x2000;
pub const FI_TRANSMIT: u64 = 0x800;
pub const FI_COMPLETION: u64 = 0x1000000;
pub const FI_DELIVERY_COMPLETE: u64 = 0x10000000;
pub const FI_CONTEXT: u64 = 0x800000000000000;
pub const FI_CONTEXT2: u64 = 0x10000000000000;
pub const FI_ORDER_SAS: u64 = 0x100;
pub const FI_ADDR_UNSPEC: u64 = 0xffffffffffffffff;
pub const FI_ADDR_NOTAVAIL: u64 = 0xffffffffffffffff;
pub const FI_MR_LOCAL: u64 = 0x4;
pub const FI_MR_VIRT_ADDR: u64 = 0x10;
pub const FI_MR_ALLOCATED: u64 = 0x20;
pub const FI_MR_PROV_KEY: u64 = 0x40;
pub const FI_MR_ENDPOINT: u64 = 0x200;
pub const FI_AV_TABLE: u32 = 2;
pub const FI_PROGRESS_MANUAL: u32 = 2;
pub const FI_THREAD_DOMAIN: u32 = 3;
pub const FI_RM_ENABLED: u32 = 2;
pub const FI_EP_RDM: u32 = 3;
pub const FI_CQ_FORMAT_MSG: u32 = 2;
pub const FI_WAIT_NONE: u32 = 0;
pub const FI_WAIT_FD: u32 = 3;
pub const FI_ADDR_STR: u32 = 9;
pub const FI_SOCKADDR: u32 = 1;
pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;
pub const FI_ADDR_EFA: u32 = 12;
pub const FI_GETWAIT: u32 = 5;
pub const FI_ENABLE: u32 = 6;
pub const FI_EAGAIN: isize = 11;
pub const FI_ENODATA: isize = 61;
pub const FI_ENOSYS: isize = 38;
pub const FI_EAVAIL: isize = 259;
pub const FI_ETRUNC: isize = 265;
pub const FI_EINVAL: isize = 22;
pub const FI_ENOKEY: isize = 266;
