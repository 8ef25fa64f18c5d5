//! The part of libfabric's ABI that the net channel uses, in version 1.17. Made by bindings/fabric.sh:
//! do not edit.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code
)]
#![allow(clippy::all, clippy::undocumented_unsafe_blocks)]

use libc::iovec;

#[derive(PartialEq, Eq, Copy, Clone, Debug, Hash)]
#[repr(C, align(8))]
pub struct __BindgenOpaqueArray8<T>(pub T);
impl<T: Copy + Default, const N: usize> Default for __BindgenOpaqueArray8<[T; N]> {
    fn default() -> Self {
        Self([<T as Default>::default(); N])
    }
}
pub type fid_t = *mut fid;
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_ioc {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 16usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ioc"][::core::mem::size_of::<fi_ioc>() - 16usize];
    ["Alignment of fi_ioc"][::core::mem::align_of::<fi_ioc>() - 8usize];
};
pub const FI_FORMAT_UNSPEC: _bindgen_ty_3 = 0;
pub const FI_SOCKADDR: _bindgen_ty_3 = 1;
pub const FI_SOCKADDR_IN: _bindgen_ty_3 = 2;
pub const FI_SOCKADDR_IN6: _bindgen_ty_3 = 3;
pub const FI_SOCKADDR_IB: _bindgen_ty_3 = 4;
pub const FI_ADDR_PSMX: _bindgen_ty_3 = 5;
pub const FI_ADDR_GNI: _bindgen_ty_3 = 6;
pub const FI_ADDR_BGQ: _bindgen_ty_3 = 7;
pub const FI_ADDR_MLX: _bindgen_ty_3 = 8;
pub const FI_ADDR_STR: _bindgen_ty_3 = 9;
pub const FI_ADDR_PSMX2: _bindgen_ty_3 = 10;
pub const FI_ADDR_IB_UD: _bindgen_ty_3 = 11;
pub const FI_ADDR_EFA: _bindgen_ty_3 = 12;
pub const FI_ADDR_PSMX3: _bindgen_ty_3 = 13;
pub const FI_ADDR_OPX: _bindgen_ty_3 = 14;
pub const FI_ADDR_CXI: _bindgen_ty_3 = 15;
pub type _bindgen_ty_3 = libc::c_uint;
pub type fi_addr_t = u64;
pub const FI_AV_UNSPEC: fi_av_type = 0;
pub const FI_AV_MAP: fi_av_type = 1;
pub const FI_AV_TABLE: fi_av_type = 2;
pub type fi_av_type = libc::c_uint;
pub const FI_PROGRESS_UNSPEC: fi_progress = 0;
pub const FI_PROGRESS_AUTO: fi_progress = 1;
pub const FI_PROGRESS_MANUAL: fi_progress = 2;
pub type fi_progress = libc::c_uint;
pub const FI_THREAD_UNSPEC: fi_threading = 0;
pub const FI_THREAD_SAFE: fi_threading = 1;
pub const FI_THREAD_FID: fi_threading = 2;
pub const FI_THREAD_DOMAIN: fi_threading = 3;
pub const FI_THREAD_COMPLETION: fi_threading = 4;
pub const FI_THREAD_ENDPOINT: fi_threading = 5;
pub type fi_threading = libc::c_uint;
pub const FI_RM_UNSPEC: fi_resource_mgmt = 0;
pub const FI_RM_DISABLED: fi_resource_mgmt = 1;
pub const FI_RM_ENABLED: fi_resource_mgmt = 2;
pub type fi_resource_mgmt = libc::c_uint;
pub const FI_EP_UNSPEC: fi_ep_type = 0;
pub const FI_EP_MSG: fi_ep_type = 1;
pub const FI_EP_DGRAM: fi_ep_type = 2;
pub const FI_EP_RDM: fi_ep_type = 3;
pub const FI_EP_SOCK_STREAM: fi_ep_type = 4;
pub const FI_EP_SOCK_DGRAM: fi_ep_type = 5;
pub type fi_ep_type = libc::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_tx_attr"][::core::mem::size_of::<fi_tx_attr>() - 80usize];
    ["Alignment of fi_tx_attr"][::core::mem::align_of::<fi_tx_attr>() - 8usize];
    ["Offset of field: fi_tx_attr::caps"][::core::mem::offset_of!(fi_tx_attr, caps) - 0usize];
    ["Offset of field: fi_tx_attr::mode"][::core::mem::offset_of!(fi_tx_attr, mode) - 8usize];
    ["Offset of field: fi_tx_attr::op_flags"]
        [::core::mem::offset_of!(fi_tx_attr, op_flags) - 16usize];
    ["Offset of field: fi_tx_attr::msg_order"]
        [::core::mem::offset_of!(fi_tx_attr, msg_order) - 24usize];
    ["Offset of field: fi_tx_attr::comp_order"]
        [::core::mem::offset_of!(fi_tx_attr, comp_order) - 32usize];
    ["Offset of field: fi_tx_attr::inject_size"]
        [::core::mem::offset_of!(fi_tx_attr, inject_size) - 40usize];
    ["Offset of field: fi_tx_attr::size"][::core::mem::offset_of!(fi_tx_attr, size) - 48usize];
    ["Offset of field: fi_tx_attr::iov_limit"]
        [::core::mem::offset_of!(fi_tx_attr, iov_limit) - 56usize];
    ["Offset of field: fi_tx_attr::rma_iov_limit"]
        [::core::mem::offset_of!(fi_tx_attr, rma_iov_limit) - 64usize];
    ["Offset of field: fi_tx_attr::tclass"][::core::mem::offset_of!(fi_tx_attr, tclass) - 72usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_rx_attr"][::core::mem::size_of::<fi_rx_attr>() - 64usize];
    ["Alignment of fi_rx_attr"][::core::mem::align_of::<fi_rx_attr>() - 8usize];
    ["Offset of field: fi_rx_attr::caps"][::core::mem::offset_of!(fi_rx_attr, caps) - 0usize];
    ["Offset of field: fi_rx_attr::mode"][::core::mem::offset_of!(fi_rx_attr, mode) - 8usize];
    ["Offset of field: fi_rx_attr::op_flags"]
        [::core::mem::offset_of!(fi_rx_attr, op_flags) - 16usize];
    ["Offset of field: fi_rx_attr::msg_order"]
        [::core::mem::offset_of!(fi_rx_attr, msg_order) - 24usize];
    ["Offset of field: fi_rx_attr::comp_order"]
        [::core::mem::offset_of!(fi_rx_attr, comp_order) - 32usize];
    ["Offset of field: fi_rx_attr::total_buffered_recv"]
        [::core::mem::offset_of!(fi_rx_attr, total_buffered_recv) - 40usize];
    ["Offset of field: fi_rx_attr::size"][::core::mem::offset_of!(fi_rx_attr, size) - 48usize];
    ["Offset of field: fi_rx_attr::iov_limit"]
        [::core::mem::offset_of!(fi_rx_attr, iov_limit) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ep_attr"][::core::mem::size_of::<fi_ep_attr>() - 96usize];
    ["Alignment of fi_ep_attr"][::core::mem::align_of::<fi_ep_attr>() - 8usize];
    ["Offset of field: fi_ep_attr::type_"][::core::mem::offset_of!(fi_ep_attr, type_) - 0usize];
    ["Offset of field: fi_ep_attr::protocol"]
        [::core::mem::offset_of!(fi_ep_attr, protocol) - 4usize];
    ["Offset of field: fi_ep_attr::protocol_version"]
        [::core::mem::offset_of!(fi_ep_attr, protocol_version) - 8usize];
    ["Offset of field: fi_ep_attr::max_msg_size"]
        [::core::mem::offset_of!(fi_ep_attr, max_msg_size) - 16usize];
    ["Offset of field: fi_ep_attr::msg_prefix_size"]
        [::core::mem::offset_of!(fi_ep_attr, msg_prefix_size) - 24usize];
    ["Offset of field: fi_ep_attr::max_order_raw_size"]
        [::core::mem::offset_of!(fi_ep_attr, max_order_raw_size) - 32usize];
    ["Offset of field: fi_ep_attr::max_order_war_size"]
        [::core::mem::offset_of!(fi_ep_attr, max_order_war_size) - 40usize];
    ["Offset of field: fi_ep_attr::max_order_waw_size"]
        [::core::mem::offset_of!(fi_ep_attr, max_order_waw_size) - 48usize];
    ["Offset of field: fi_ep_attr::mem_tag_format"]
        [::core::mem::offset_of!(fi_ep_attr, mem_tag_format) - 56usize];
    ["Offset of field: fi_ep_attr::tx_ctx_cnt"]
        [::core::mem::offset_of!(fi_ep_attr, tx_ctx_cnt) - 64usize];
    ["Offset of field: fi_ep_attr::rx_ctx_cnt"]
        [::core::mem::offset_of!(fi_ep_attr, rx_ctx_cnt) - 72usize];
    ["Offset of field: fi_ep_attr::auth_key_size"]
        [::core::mem::offset_of!(fi_ep_attr, auth_key_size) - 80usize];
    ["Offset of field: fi_ep_attr::auth_key"]
        [::core::mem::offset_of!(fi_ep_attr, auth_key) - 88usize];
};
impl Default for fi_ep_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_domain_attr"][::core::mem::size_of::<fi_domain_attr>() - 192usize];
    ["Alignment of fi_domain_attr"][::core::mem::align_of::<fi_domain_attr>() - 8usize];
    ["Offset of field: fi_domain_attr::domain"]
        [::core::mem::offset_of!(fi_domain_attr, domain) - 0usize];
    ["Offset of field: fi_domain_attr::name"]
        [::core::mem::offset_of!(fi_domain_attr, name) - 8usize];
    ["Offset of field: fi_domain_attr::threading"]
        [::core::mem::offset_of!(fi_domain_attr, threading) - 16usize];
    ["Offset of field: fi_domain_attr::control_progress"]
        [::core::mem::offset_of!(fi_domain_attr, control_progress) - 20usize];
    ["Offset of field: fi_domain_attr::data_progress"]
        [::core::mem::offset_of!(fi_domain_attr, data_progress) - 24usize];
    ["Offset of field: fi_domain_attr::resource_mgmt"]
        [::core::mem::offset_of!(fi_domain_attr, resource_mgmt) - 28usize];
    ["Offset of field: fi_domain_attr::av_type"]
        [::core::mem::offset_of!(fi_domain_attr, av_type) - 32usize];
    ["Offset of field: fi_domain_attr::mr_mode"]
        [::core::mem::offset_of!(fi_domain_attr, mr_mode) - 36usize];
    ["Offset of field: fi_domain_attr::mr_key_size"]
        [::core::mem::offset_of!(fi_domain_attr, mr_key_size) - 40usize];
    ["Offset of field: fi_domain_attr::cq_data_size"]
        [::core::mem::offset_of!(fi_domain_attr, cq_data_size) - 48usize];
    ["Offset of field: fi_domain_attr::cq_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, cq_cnt) - 56usize];
    ["Offset of field: fi_domain_attr::ep_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, ep_cnt) - 64usize];
    ["Offset of field: fi_domain_attr::tx_ctx_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, tx_ctx_cnt) - 72usize];
    ["Offset of field: fi_domain_attr::rx_ctx_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, rx_ctx_cnt) - 80usize];
    ["Offset of field: fi_domain_attr::max_ep_tx_ctx"]
        [::core::mem::offset_of!(fi_domain_attr, max_ep_tx_ctx) - 88usize];
    ["Offset of field: fi_domain_attr::max_ep_rx_ctx"]
        [::core::mem::offset_of!(fi_domain_attr, max_ep_rx_ctx) - 96usize];
    ["Offset of field: fi_domain_attr::max_ep_stx_ctx"]
        [::core::mem::offset_of!(fi_domain_attr, max_ep_stx_ctx) - 104usize];
    ["Offset of field: fi_domain_attr::max_ep_srx_ctx"]
        [::core::mem::offset_of!(fi_domain_attr, max_ep_srx_ctx) - 112usize];
    ["Offset of field: fi_domain_attr::cntr_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, cntr_cnt) - 120usize];
    ["Offset of field: fi_domain_attr::mr_iov_limit"]
        [::core::mem::offset_of!(fi_domain_attr, mr_iov_limit) - 128usize];
    ["Offset of field: fi_domain_attr::caps"]
        [::core::mem::offset_of!(fi_domain_attr, caps) - 136usize];
    ["Offset of field: fi_domain_attr::mode"]
        [::core::mem::offset_of!(fi_domain_attr, mode) - 144usize];
    ["Offset of field: fi_domain_attr::auth_key"]
        [::core::mem::offset_of!(fi_domain_attr, auth_key) - 152usize];
    ["Offset of field: fi_domain_attr::auth_key_size"]
        [::core::mem::offset_of!(fi_domain_attr, auth_key_size) - 160usize];
    ["Offset of field: fi_domain_attr::max_err_data"]
        [::core::mem::offset_of!(fi_domain_attr, max_err_data) - 168usize];
    ["Offset of field: fi_domain_attr::mr_cnt"]
        [::core::mem::offset_of!(fi_domain_attr, mr_cnt) - 176usize];
    ["Offset of field: fi_domain_attr::tclass"]
        [::core::mem::offset_of!(fi_domain_attr, tclass) - 184usize];
};
impl Default for fi_domain_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut libc::c_char,
    pub prov_name: *mut libc::c_char,
    pub prov_version: u32,
    pub api_version: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_fabric_attr"][::core::mem::size_of::<fi_fabric_attr>() - 32usize];
    ["Alignment of fi_fabric_attr"][::core::mem::align_of::<fi_fabric_attr>() - 8usize];
    ["Offset of field: fi_fabric_attr::fabric"]
        [::core::mem::offset_of!(fi_fabric_attr, fabric) - 0usize];
    ["Offset of field: fi_fabric_attr::name"]
        [::core::mem::offset_of!(fi_fabric_attr, name) - 8usize];
    ["Offset of field: fi_fabric_attr::prov_name"]
        [::core::mem::offset_of!(fi_fabric_attr, prov_name) - 16usize];
    ["Offset of field: fi_fabric_attr::prov_version"]
        [::core::mem::offset_of!(fi_fabric_attr, prov_version) - 24usize];
    ["Offset of field: fi_fabric_attr::api_version"]
        [::core::mem::offset_of!(fi_fabric_attr, api_version) - 28usize];
};
impl Default for fi_fabric_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_info"][::core::mem::size_of::<fi_info>() - 120usize];
    ["Alignment of fi_info"][::core::mem::align_of::<fi_info>() - 8usize];
    ["Offset of field: fi_info::next"][::core::mem::offset_of!(fi_info, next) - 0usize];
    ["Offset of field: fi_info::caps"][::core::mem::offset_of!(fi_info, caps) - 8usize];
    ["Offset of field: fi_info::mode"][::core::mem::offset_of!(fi_info, mode) - 16usize];
    ["Offset of field: fi_info::addr_format"]
        [::core::mem::offset_of!(fi_info, addr_format) - 24usize];
    ["Offset of field: fi_info::src_addrlen"]
        [::core::mem::offset_of!(fi_info, src_addrlen) - 32usize];
    ["Offset of field: fi_info::dest_addrlen"]
        [::core::mem::offset_of!(fi_info, dest_addrlen) - 40usize];
    ["Offset of field: fi_info::src_addr"][::core::mem::offset_of!(fi_info, src_addr) - 48usize];
    ["Offset of field: fi_info::dest_addr"][::core::mem::offset_of!(fi_info, dest_addr) - 56usize];
    ["Offset of field: fi_info::handle"][::core::mem::offset_of!(fi_info, handle) - 64usize];
    ["Offset of field: fi_info::tx_attr"][::core::mem::offset_of!(fi_info, tx_attr) - 72usize];
    ["Offset of field: fi_info::rx_attr"][::core::mem::offset_of!(fi_info, rx_attr) - 80usize];
    ["Offset of field: fi_info::ep_attr"][::core::mem::offset_of!(fi_info, ep_attr) - 88usize];
    ["Offset of field: fi_info::domain_attr"]
        [::core::mem::offset_of!(fi_info, domain_attr) - 96usize];
    ["Offset of field: fi_info::fabric_attr"]
        [::core::mem::offset_of!(fi_info, fabric_attr) - 104usize];
    ["Offset of field: fi_info::nic"][::core::mem::offset_of!(fi_info, nic) - 112usize];
};
impl Default for fi_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_device_attr {
    pub name: *mut libc::c_char,
    pub device_id: *mut libc::c_char,
    pub device_version: *mut libc::c_char,
    pub vendor_id: *mut libc::c_char,
    pub driver: *mut libc::c_char,
    pub firmware: *mut libc::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_device_attr"][::core::mem::size_of::<fi_device_attr>() - 48usize];
    ["Alignment of fi_device_attr"][::core::mem::align_of::<fi_device_attr>() - 8usize];
    ["Offset of field: fi_device_attr::name"]
        [::core::mem::offset_of!(fi_device_attr, name) - 0usize];
    ["Offset of field: fi_device_attr::device_id"]
        [::core::mem::offset_of!(fi_device_attr, device_id) - 8usize];
    ["Offset of field: fi_device_attr::device_version"]
        [::core::mem::offset_of!(fi_device_attr, device_version) - 16usize];
    ["Offset of field: fi_device_attr::vendor_id"]
        [::core::mem::offset_of!(fi_device_attr, vendor_id) - 24usize];
    ["Offset of field: fi_device_attr::driver"]
        [::core::mem::offset_of!(fi_device_attr, driver) - 32usize];
    ["Offset of field: fi_device_attr::firmware"]
        [::core::mem::offset_of!(fi_device_attr, firmware) - 40usize];
};
impl Default for fi_device_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_pci_attr {
    pub domain_id: u16,
    pub bus_id: u8,
    pub device_id: u8,
    pub function_id: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_pci_attr"][::core::mem::size_of::<fi_pci_attr>() - 6usize];
    ["Alignment of fi_pci_attr"][::core::mem::align_of::<fi_pci_attr>() - 2usize];
    ["Offset of field: fi_pci_attr::domain_id"]
        [::core::mem::offset_of!(fi_pci_attr, domain_id) - 0usize];
    ["Offset of field: fi_pci_attr::bus_id"][::core::mem::offset_of!(fi_pci_attr, bus_id) - 2usize];
    ["Offset of field: fi_pci_attr::device_id"]
        [::core::mem::offset_of!(fi_pci_attr, device_id) - 3usize];
    ["Offset of field: fi_pci_attr::function_id"]
        [::core::mem::offset_of!(fi_pci_attr, function_id) - 4usize];
};
#[repr(C)]
#[repr(align(4))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_bus_attr {
    pub _bindgen_opaque_blob: [u32; 3usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union fi_bus_attr__bindgen_ty_1 {
    pub pci: fi_pci_attr,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_bus_attr__bindgen_ty_1"]
        [::core::mem::size_of::<fi_bus_attr__bindgen_ty_1>() - 6usize];
    ["Alignment of fi_bus_attr__bindgen_ty_1"]
        [::core::mem::align_of::<fi_bus_attr__bindgen_ty_1>() - 2usize];
    ["Offset of field: fi_bus_attr__bindgen_ty_1::pci"]
        [::core::mem::offset_of!(fi_bus_attr__bindgen_ty_1, pci) - 0usize];
};
impl Default for fi_bus_attr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_bus_attr"][::core::mem::size_of::<fi_bus_attr>() - 12usize];
    ["Alignment of fi_bus_attr"][::core::mem::align_of::<fi_bus_attr>() - 4usize];
};
pub const FI_LINK_UNKNOWN: fi_link_state = 0;
pub const FI_LINK_DOWN: fi_link_state = 1;
pub const FI_LINK_UP: fi_link_state = 2;
pub type fi_link_state = libc::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_link_attr {
    pub address: *mut libc::c_char,
    pub mtu: usize,
    pub speed: usize,
    pub state: fi_link_state,
    pub network_type: *mut libc::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_link_attr"][::core::mem::size_of::<fi_link_attr>() - 40usize];
    ["Alignment of fi_link_attr"][::core::mem::align_of::<fi_link_attr>() - 8usize];
    ["Offset of field: fi_link_attr::address"]
        [::core::mem::offset_of!(fi_link_attr, address) - 0usize];
    ["Offset of field: fi_link_attr::mtu"][::core::mem::offset_of!(fi_link_attr, mtu) - 8usize];
    ["Offset of field: fi_link_attr::speed"]
        [::core::mem::offset_of!(fi_link_attr, speed) - 16usize];
    ["Offset of field: fi_link_attr::state"]
        [::core::mem::offset_of!(fi_link_attr, state) - 24usize];
    ["Offset of field: fi_link_attr::network_type"]
        [::core::mem::offset_of!(fi_link_attr, network_type) - 32usize];
};
impl Default for fi_link_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub ops_open: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const libc::c_char,
            flags: u64,
            ops: *mut *mut libc::c_void,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub tostr: ::core::option::Option<
        unsafe extern "C" fn(fid: *const fid, buf: *mut libc::c_char, len: usize) -> libc::c_int,
    >,
    pub ops_set: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            name: *const libc::c_char,
            flags: u64,
            ops: *mut libc::c_void,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops"][::core::mem::size_of::<fi_ops>() - 56usize];
    ["Alignment of fi_ops"][::core::mem::align_of::<fi_ops>() - 8usize];
    ["Offset of field: fi_ops::size"][::core::mem::offset_of!(fi_ops, size) - 0usize];
    ["Offset of field: fi_ops::close"][::core::mem::offset_of!(fi_ops, close) - 8usize];
    ["Offset of field: fi_ops::bind"][::core::mem::offset_of!(fi_ops, bind) - 16usize];
    ["Offset of field: fi_ops::control"][::core::mem::offset_of!(fi_ops, control) - 24usize];
    ["Offset of field: fi_ops::ops_open"][::core::mem::offset_of!(fi_ops, ops_open) - 32usize];
    ["Offset of field: fi_ops::tostr"][::core::mem::offset_of!(fi_ops, tostr) - 40usize];
    ["Offset of field: fi_ops::ops_set"][::core::mem::offset_of!(fi_ops, ops_set) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut libc::c_void,
    pub ops: *mut fi_ops,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid"][::core::mem::size_of::<fid>() - 24usize];
    ["Alignment of fid"][::core::mem::align_of::<fid>() - 8usize];
    ["Offset of field: fid::fclass"][::core::mem::offset_of!(fid, fclass) - 0usize];
    ["Offset of field: fid::context"][::core::mem::offset_of!(fid, context) - 8usize];
    ["Offset of field: fid::ops"][::core::mem::offset_of!(fid, ops) - 16usize];
};
impl Default for fid {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub passive_ep: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            pep: *mut *mut fid_pep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub eq_open: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_eq_attr,
            eq: *mut *mut fid_eq,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub wait_open: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            attr: *mut fi_wait_attr,
            waitset: *mut *mut fid_wait,
        ) -> libc::c_int,
    >,
    pub trywait: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            fids: *mut *mut fid,
            count: libc::c_int,
        ) -> libc::c_int,
    >,
    pub domain2: ::core::option::Option<
        unsafe extern "C" fn(
            fabric: *mut fid_fabric,
            info: *mut fi_info,
            dom: *mut *mut fid_domain,
            flags: u64,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_fabric"][::core::mem::size_of::<fi_ops_fabric>() - 56usize];
    ["Alignment of fi_ops_fabric"][::core::mem::align_of::<fi_ops_fabric>() - 8usize];
    ["Offset of field: fi_ops_fabric::size"][::core::mem::offset_of!(fi_ops_fabric, size) - 0usize];
    ["Offset of field: fi_ops_fabric::domain"]
        [::core::mem::offset_of!(fi_ops_fabric, domain) - 8usize];
    ["Offset of field: fi_ops_fabric::passive_ep"]
        [::core::mem::offset_of!(fi_ops_fabric, passive_ep) - 16usize];
    ["Offset of field: fi_ops_fabric::eq_open"]
        [::core::mem::offset_of!(fi_ops_fabric, eq_open) - 24usize];
    ["Offset of field: fi_ops_fabric::wait_open"]
        [::core::mem::offset_of!(fi_ops_fabric, wait_open) - 32usize];
    ["Offset of field: fi_ops_fabric::trywait"]
        [::core::mem::offset_of!(fi_ops_fabric, trywait) - 40usize];
    ["Offset of field: fi_ops_fabric::domain2"]
        [::core::mem::offset_of!(fi_ops_fabric, domain2) - 48usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_fabric"][::core::mem::size_of::<fid_fabric>() - 40usize];
    ["Alignment of fid_fabric"][::core::mem::align_of::<fid_fabric>() - 8usize];
    ["Offset of field: fid_fabric::fid"][::core::mem::offset_of!(fid_fabric, fid) - 0usize];
    ["Offset of field: fid_fabric::ops"][::core::mem::offset_of!(fid_fabric, ops) - 24usize];
    ["Offset of field: fid_fabric::api_version"]
        [::core::mem::offset_of!(fid_fabric, api_version) - 32usize];
};
impl Default for fid_fabric {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut fi_device_attr,
    pub bus_attr: *mut fi_bus_attr,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut libc::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_nic"][::core::mem::size_of::<fid_nic>() - 56usize];
    ["Alignment of fid_nic"][::core::mem::align_of::<fid_nic>() - 8usize];
    ["Offset of field: fid_nic::fid"][::core::mem::offset_of!(fid_nic, fid) - 0usize];
    ["Offset of field: fid_nic::device_attr"]
        [::core::mem::offset_of!(fid_nic, device_attr) - 24usize];
    ["Offset of field: fid_nic::bus_attr"][::core::mem::offset_of!(fid_nic, bus_attr) - 32usize];
    ["Offset of field: fid_nic::link_attr"][::core::mem::offset_of!(fid_nic, link_attr) - 40usize];
    ["Offset of field: fid_nic::prov_attr"][::core::mem::offset_of!(fid_nic, prov_attr) - 48usize];
};
impl Default for fid_nic {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const FI_GETFIDFLAG: _bindgen_ty_7 = 0;
pub const FI_SETFIDFLAG: _bindgen_ty_7 = 1;
pub const FI_GETOPSFLAG: _bindgen_ty_7 = 2;
pub const FI_SETOPSFLAG: _bindgen_ty_7 = 3;
pub const FI_ALIAS: _bindgen_ty_7 = 4;
pub const FI_GETWAIT: _bindgen_ty_7 = 5;
pub const FI_ENABLE: _bindgen_ty_7 = 6;
pub const FI_BACKLOG: _bindgen_ty_7 = 7;
pub const FI_GET_RAW_MR: _bindgen_ty_7 = 8;
pub const FI_MAP_RAW_MR: _bindgen_ty_7 = 9;
pub const FI_UNMAP_KEY: _bindgen_ty_7 = 10;
pub const FI_QUEUE_WORK: _bindgen_ty_7 = 11;
pub const FI_CANCEL_WORK: _bindgen_ty_7 = 12;
pub const FI_FLUSH_WORK: _bindgen_ty_7 = 13;
pub const FI_REFRESH: _bindgen_ty_7 = 14;
pub const FI_DUP: _bindgen_ty_7 = 15;
pub const FI_GETWAITOBJ: _bindgen_ty_7 = 16;
pub const FI_GET_VAL: _bindgen_ty_7 = 17;
pub const FI_SET_VAL: _bindgen_ty_7 = 18;
pub const FI_EXPORT_FID: _bindgen_ty_7 = 19;
pub type _bindgen_ty_7 = libc::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_context2 {
    pub internal: [*mut libc::c_void; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_context2"][::core::mem::size_of::<fi_context2>() - 64usize];
    ["Alignment of fi_context2"][::core::mem::align_of::<fi_context2>() - 8usize];
    ["Offset of field: fi_context2::internal"]
        [::core::mem::offset_of!(fi_context2, internal) - 0usize];
};
impl Default for fi_context2 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_WAIT_UNSPEC: fi_wait_obj = 1;
pub const FI_WAIT_SET: fi_wait_obj = 2;
pub const FI_WAIT_FD: fi_wait_obj = 3;
pub const FI_WAIT_MUTEX_COND: fi_wait_obj = 4;
pub const FI_WAIT_YIELD: fi_wait_obj = 5;
pub const FI_WAIT_POLLFD: fi_wait_obj = 6;
pub type fi_wait_obj = libc::c_uint;
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_wait_attr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 16usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_wait_attr"][::core::mem::size_of::<fi_wait_attr>() - 16usize];
    ["Alignment of fi_wait_attr"][::core::mem::align_of::<fi_wait_attr>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_wait {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_wait"][::core::mem::size_of::<fid_wait>() - 32usize];
    ["Alignment of fid_wait"][::core::mem::align_of::<fid_wait>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_poll_attr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 8usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_poll_attr"][::core::mem::size_of::<fi_poll_attr>() - 8usize];
    ["Alignment of fi_poll_attr"][::core::mem::align_of::<fi_poll_attr>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_poll {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_poll"][::core::mem::size_of::<fid_poll>() - 32usize];
    ["Alignment of fid_poll"][::core::mem::align_of::<fid_poll>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_eq_attr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_eq_attr"][::core::mem::size_of::<fi_eq_attr>() - 32usize];
    ["Alignment of fi_eq_attr"][::core::mem::align_of::<fi_eq_attr>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_eq {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_eq"][::core::mem::size_of::<fid_eq>() - 32usize];
    ["Alignment of fid_eq"][::core::mem::align_of::<fid_eq>() - 8usize];
};
pub const FI_CQ_FORMAT_UNSPEC: fi_cq_format = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
pub const FI_CQ_FORMAT_DATA: fi_cq_format = 3;
pub const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;
pub type fi_cq_format = libc::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut libc::c_void,
    pub flags: u64,
    pub len: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_cq_msg_entry"][::core::mem::size_of::<fi_cq_msg_entry>() - 24usize];
    ["Alignment of fi_cq_msg_entry"][::core::mem::align_of::<fi_cq_msg_entry>() - 8usize];
    ["Offset of field: fi_cq_msg_entry::op_context"]
        [::core::mem::offset_of!(fi_cq_msg_entry, op_context) - 0usize];
    ["Offset of field: fi_cq_msg_entry::flags"]
        [::core::mem::offset_of!(fi_cq_msg_entry, flags) - 8usize];
    ["Offset of field: fi_cq_msg_entry::len"]
        [::core::mem::offset_of!(fi_cq_msg_entry, len) - 16usize];
};
impl Default for fi_cq_msg_entry {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_cq_err_entry"][::core::mem::size_of::<fi_cq_err_entry>() - 80usize];
    ["Alignment of fi_cq_err_entry"][::core::mem::align_of::<fi_cq_err_entry>() - 8usize];
    ["Offset of field: fi_cq_err_entry::op_context"]
        [::core::mem::offset_of!(fi_cq_err_entry, op_context) - 0usize];
    ["Offset of field: fi_cq_err_entry::flags"]
        [::core::mem::offset_of!(fi_cq_err_entry, flags) - 8usize];
    ["Offset of field: fi_cq_err_entry::len"]
        [::core::mem::offset_of!(fi_cq_err_entry, len) - 16usize];
    ["Offset of field: fi_cq_err_entry::buf"]
        [::core::mem::offset_of!(fi_cq_err_entry, buf) - 24usize];
    ["Offset of field: fi_cq_err_entry::data"]
        [::core::mem::offset_of!(fi_cq_err_entry, data) - 32usize];
    ["Offset of field: fi_cq_err_entry::tag"]
        [::core::mem::offset_of!(fi_cq_err_entry, tag) - 40usize];
    ["Offset of field: fi_cq_err_entry::olen"]
        [::core::mem::offset_of!(fi_cq_err_entry, olen) - 48usize];
    ["Offset of field: fi_cq_err_entry::err"]
        [::core::mem::offset_of!(fi_cq_err_entry, err) - 56usize];
    ["Offset of field: fi_cq_err_entry::prov_errno"]
        [::core::mem::offset_of!(fi_cq_err_entry, prov_errno) - 60usize];
    ["Offset of field: fi_cq_err_entry::err_data"]
        [::core::mem::offset_of!(fi_cq_err_entry, err_data) - 64usize];
    ["Offset of field: fi_cq_err_entry::err_data_size"]
        [::core::mem::offset_of!(fi_cq_err_entry, err_data_size) - 72usize];
};
impl Default for fi_cq_err_entry {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const FI_CQ_COND_NONE: fi_cq_wait_cond = 0;
pub const FI_CQ_COND_THRESHOLD: fi_cq_wait_cond = 1;
pub type fi_cq_wait_cond = libc::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: libc::c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_cq_attr"][::core::mem::size_of::<fi_cq_attr>() - 40usize];
    ["Alignment of fi_cq_attr"][::core::mem::align_of::<fi_cq_attr>() - 8usize];
    ["Offset of field: fi_cq_attr::size"][::core::mem::offset_of!(fi_cq_attr, size) - 0usize];
    ["Offset of field: fi_cq_attr::flags"][::core::mem::offset_of!(fi_cq_attr, flags) - 8usize];
    ["Offset of field: fi_cq_attr::format"][::core::mem::offset_of!(fi_cq_attr, format) - 16usize];
    ["Offset of field: fi_cq_attr::wait_obj"]
        [::core::mem::offset_of!(fi_cq_attr, wait_obj) - 20usize];
    ["Offset of field: fi_cq_attr::signaling_vector"]
        [::core::mem::offset_of!(fi_cq_attr, signaling_vector) - 24usize];
    ["Offset of field: fi_cq_attr::wait_cond"]
        [::core::mem::offset_of!(fi_cq_attr, wait_cond) - 28usize];
    ["Offset of field: fi_cq_attr::wait_set"]
        [::core::mem::offset_of!(fi_cq_attr, wait_set) - 32usize];
};
impl Default for fi_cq_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: ::core::option::Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut libc::c_void, count: usize) -> isize,
    >,
    pub readfrom: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut libc::c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
        ) -> isize,
    >,
    pub readerr: ::core::option::Option<
        unsafe extern "C" fn(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> isize,
    >,
    pub sread: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut libc::c_void,
            count: usize,
            cond: *const libc::c_void,
            timeout: libc::c_int,
        ) -> isize,
    >,
    pub sreadfrom: ::core::option::Option<
        unsafe extern "C" fn(
            cq: *mut fid_cq,
            buf: *mut libc::c_void,
            count: usize,
            src_addr: *mut fi_addr_t,
            cond: *const libc::c_void,
            timeout: libc::c_int,
        ) -> isize,
    >,
    pub signal: ::core::option::Option<unsafe extern "C" fn(cq: *mut fid_cq) -> libc::c_int>,
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_cq"][::core::mem::size_of::<fi_ops_cq>() - 64usize];
    ["Alignment of fi_ops_cq"][::core::mem::align_of::<fi_ops_cq>() - 8usize];
    ["Offset of field: fi_ops_cq::size"][::core::mem::offset_of!(fi_ops_cq, size) - 0usize];
    ["Offset of field: fi_ops_cq::read"][::core::mem::offset_of!(fi_ops_cq, read) - 8usize];
    ["Offset of field: fi_ops_cq::readfrom"]
        [::core::mem::offset_of!(fi_ops_cq, readfrom) - 16usize];
    ["Offset of field: fi_ops_cq::readerr"][::core::mem::offset_of!(fi_ops_cq, readerr) - 24usize];
    ["Offset of field: fi_ops_cq::sread"][::core::mem::offset_of!(fi_ops_cq, sread) - 32usize];
    ["Offset of field: fi_ops_cq::sreadfrom"]
        [::core::mem::offset_of!(fi_ops_cq, sreadfrom) - 40usize];
    ["Offset of field: fi_ops_cq::signal"][::core::mem::offset_of!(fi_ops_cq, signal) - 48usize];
    ["Offset of field: fi_ops_cq::strerror"]
        [::core::mem::offset_of!(fi_ops_cq, strerror) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_cq"][::core::mem::size_of::<fid_cq>() - 32usize];
    ["Alignment of fid_cq"][::core::mem::align_of::<fid_cq>() - 8usize];
    ["Offset of field: fid_cq::fid"][::core::mem::offset_of!(fid_cq, fid) - 0usize];
    ["Offset of field: fid_cq::ops"][::core::mem::offset_of!(fid_cq, ops) - 24usize];
};
impl Default for fid_cq {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_cntr_attr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 24usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_cntr_attr"][::core::mem::size_of::<fi_cntr_attr>() - 24usize];
    ["Alignment of fi_cntr_attr"][::core::mem::align_of::<fi_cntr_attr>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_cntr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_cntr"][::core::mem::size_of::<fid_cntr>() - 32usize];
    ["Alignment of fid_cntr"][::core::mem::align_of::<fid_cntr>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fi_av_attr {
    pub type_: fi_av_type,
    pub rx_ctx_bits: libc::c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const libc::c_char,
    pub map_addr: *mut libc::c_void,
    pub flags: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_av_attr"][::core::mem::size_of::<fi_av_attr>() - 48usize];
    ["Alignment of fi_av_attr"][::core::mem::align_of::<fi_av_attr>() - 8usize];
    ["Offset of field: fi_av_attr::type_"][::core::mem::offset_of!(fi_av_attr, type_) - 0usize];
    ["Offset of field: fi_av_attr::rx_ctx_bits"]
        [::core::mem::offset_of!(fi_av_attr, rx_ctx_bits) - 4usize];
    ["Offset of field: fi_av_attr::count"][::core::mem::offset_of!(fi_av_attr, count) - 8usize];
    ["Offset of field: fi_av_attr::ep_per_node"]
        [::core::mem::offset_of!(fi_av_attr, ep_per_node) - 16usize];
    ["Offset of field: fi_av_attr::name"][::core::mem::offset_of!(fi_av_attr, name) - 24usize];
    ["Offset of field: fi_av_attr::map_addr"]
        [::core::mem::offset_of!(fi_av_attr, map_addr) - 32usize];
    ["Offset of field: fi_av_attr::flags"][::core::mem::offset_of!(fi_av_attr, flags) - 40usize];
};
impl Default for fi_av_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_av_set_attr {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 56usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_av_set_attr"][::core::mem::size_of::<fi_av_set_attr>() - 56usize];
    ["Alignment of fi_av_set_attr"][::core::mem::align_of::<fi_av_set_attr>() - 8usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct fid_av_set {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub insertsvc: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            node: *const libc::c_char,
            service: *const libc::c_char,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub insertsym: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            node: *const libc::c_char,
            nodecnt: usize,
            service: *const libc::c_char,
            svccnt: usize,
            fi_addr: *mut fi_addr_t,
            flags: u64,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub remove: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: *mut fi_addr_t,
            count: usize,
            flags: u64,
        ) -> libc::c_int,
    >,
    pub lookup: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            fi_addr: fi_addr_t,
            addr: *mut libc::c_void,
            addrlen: *mut usize,
        ) -> libc::c_int,
    >,
    pub straddr: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            addr: *const libc::c_void,
            buf: *mut libc::c_char,
            len: *mut usize,
        ) -> *const libc::c_char,
    >,
    pub av_set: ::core::option::Option<
        unsafe extern "C" fn(
            av: *mut fid_av,
            attr: *mut fi_av_set_attr,
            av_set: *mut *mut fid_av_set,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_av"][::core::mem::size_of::<fi_ops_av>() - 64usize];
    ["Alignment of fi_ops_av"][::core::mem::align_of::<fi_ops_av>() - 8usize];
    ["Offset of field: fi_ops_av::size"][::core::mem::offset_of!(fi_ops_av, size) - 0usize];
    ["Offset of field: fi_ops_av::insert"][::core::mem::offset_of!(fi_ops_av, insert) - 8usize];
    ["Offset of field: fi_ops_av::insertsvc"]
        [::core::mem::offset_of!(fi_ops_av, insertsvc) - 16usize];
    ["Offset of field: fi_ops_av::insertsym"]
        [::core::mem::offset_of!(fi_ops_av, insertsym) - 24usize];
    ["Offset of field: fi_ops_av::remove"][::core::mem::offset_of!(fi_ops_av, remove) - 32usize];
    ["Offset of field: fi_ops_av::lookup"][::core::mem::offset_of!(fi_ops_av, lookup) - 40usize];
    ["Offset of field: fi_ops_av::straddr"][::core::mem::offset_of!(fi_ops_av, straddr) - 48usize];
    ["Offset of field: fi_ops_av::av_set"][::core::mem::offset_of!(fi_ops_av, av_set) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_av"][::core::mem::size_of::<fid_av>() - 32usize];
    ["Alignment of fid_av"][::core::mem::align_of::<fid_av>() - 8usize];
    ["Offset of field: fid_av::fid"][::core::mem::offset_of!(fid_av, fid) - 0usize];
    ["Offset of field: fid_av::ops"][::core::mem::offset_of!(fid_av, ops) - 24usize];
};
impl Default for fid_av {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut libc::c_void,
    pub key: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_mr"][::core::mem::size_of::<fid_mr>() - 40usize];
    ["Alignment of fid_mr"][::core::mem::align_of::<fid_mr>() - 8usize];
    ["Offset of field: fid_mr::fid"][::core::mem::offset_of!(fid_mr, fid) - 0usize];
    ["Offset of field: fid_mr::mem_desc"][::core::mem::offset_of!(fid_mr, mem_desc) - 24usize];
    ["Offset of field: fid_mr::key"][::core::mem::offset_of!(fid_mr, key) - 32usize];
};
impl Default for fid_mr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const FI_HMEM_SYSTEM: fi_hmem_iface = 0;
pub const FI_HMEM_CUDA: fi_hmem_iface = 1;
pub const FI_HMEM_ROCR: fi_hmem_iface = 2;
pub const FI_HMEM_ZE: fi_hmem_iface = 3;
pub const FI_HMEM_NEURON: fi_hmem_iface = 4;
pub const FI_HMEM_SYNAPSEAI: fi_hmem_iface = 5;
pub type fi_hmem_iface = libc::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct fi_mr_attr {
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut libc::c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub iface: fi_hmem_iface,
    pub device: fi_mr_attr__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union fi_mr_attr__bindgen_ty_1 {
    pub reserved: u64,
    pub cuda: libc::c_int,
    pub ze: libc::c_int,
    pub neuron: libc::c_int,
    pub synapseai: libc::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_mr_attr__bindgen_ty_1"]
        [::core::mem::size_of::<fi_mr_attr__bindgen_ty_1>() - 8usize];
    ["Alignment of fi_mr_attr__bindgen_ty_1"]
        [::core::mem::align_of::<fi_mr_attr__bindgen_ty_1>() - 8usize];
    ["Offset of field: fi_mr_attr__bindgen_ty_1::reserved"]
        [::core::mem::offset_of!(fi_mr_attr__bindgen_ty_1, reserved) - 0usize];
    ["Offset of field: fi_mr_attr__bindgen_ty_1::cuda"]
        [::core::mem::offset_of!(fi_mr_attr__bindgen_ty_1, cuda) - 0usize];
    ["Offset of field: fi_mr_attr__bindgen_ty_1::ze"]
        [::core::mem::offset_of!(fi_mr_attr__bindgen_ty_1, ze) - 0usize];
    ["Offset of field: fi_mr_attr__bindgen_ty_1::neuron"]
        [::core::mem::offset_of!(fi_mr_attr__bindgen_ty_1, neuron) - 0usize];
    ["Offset of field: fi_mr_attr__bindgen_ty_1::synapseai"]
        [::core::mem::offset_of!(fi_mr_attr__bindgen_ty_1, synapseai) - 0usize];
};
impl Default for fi_mr_attr__bindgen_ty_1 {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_mr_attr"][::core::mem::size_of::<fi_mr_attr>() - 80usize];
    ["Alignment of fi_mr_attr"][::core::mem::align_of::<fi_mr_attr>() - 8usize];
    ["Offset of field: fi_mr_attr::mr_iov"][::core::mem::offset_of!(fi_mr_attr, mr_iov) - 0usize];
    ["Offset of field: fi_mr_attr::iov_count"]
        [::core::mem::offset_of!(fi_mr_attr, iov_count) - 8usize];
    ["Offset of field: fi_mr_attr::access"][::core::mem::offset_of!(fi_mr_attr, access) - 16usize];
    ["Offset of field: fi_mr_attr::offset"][::core::mem::offset_of!(fi_mr_attr, offset) - 24usize];
    ["Offset of field: fi_mr_attr::requested_key"]
        [::core::mem::offset_of!(fi_mr_attr, requested_key) - 32usize];
    ["Offset of field: fi_mr_attr::context"]
        [::core::mem::offset_of!(fi_mr_attr, context) - 40usize];
    ["Offset of field: fi_mr_attr::auth_key_size"]
        [::core::mem::offset_of!(fi_mr_attr, auth_key_size) - 48usize];
    ["Offset of field: fi_mr_attr::auth_key"]
        [::core::mem::offset_of!(fi_mr_attr, auth_key) - 56usize];
    ["Offset of field: fi_mr_attr::iface"][::core::mem::offset_of!(fi_mr_attr, iface) - 64usize];
    ["Offset of field: fi_mr_attr::device"][::core::mem::offset_of!(fi_mr_attr, device) - 72usize];
};
impl Default for fi_mr_attr {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const FI_INT8: fi_datatype = 0;
pub const FI_UINT8: fi_datatype = 1;
pub const FI_INT16: fi_datatype = 2;
pub const FI_UINT16: fi_datatype = 3;
pub const FI_INT32: fi_datatype = 4;
pub const FI_UINT32: fi_datatype = 5;
pub const FI_INT64: fi_datatype = 6;
pub const FI_UINT64: fi_datatype = 7;
pub const FI_FLOAT: fi_datatype = 8;
pub const FI_DOUBLE: fi_datatype = 9;
pub const FI_FLOAT_COMPLEX: fi_datatype = 10;
pub const FI_DOUBLE_COMPLEX: fi_datatype = 11;
pub const FI_LONG_DOUBLE: fi_datatype = 12;
pub const FI_LONG_DOUBLE_COMPLEX: fi_datatype = 13;
pub const FI_DATATYPE_LAST: fi_datatype = 14;
pub const FI_INT128: fi_datatype = 14;
pub const FI_UINT128: fi_datatype = 15;
pub const FI_VOID: fi_datatype = 256;
pub type fi_datatype = libc::c_uint;
pub const FI_MIN: fi_op = 0;
pub const FI_MAX: fi_op = 1;
pub const FI_SUM: fi_op = 2;
pub const FI_PROD: fi_op = 3;
pub const FI_LOR: fi_op = 4;
pub const FI_LAND: fi_op = 5;
pub const FI_BOR: fi_op = 6;
pub const FI_BAND: fi_op = 7;
pub const FI_LXOR: fi_op = 8;
pub const FI_BXOR: fi_op = 9;
pub const FI_ATOMIC_READ: fi_op = 10;
pub const FI_ATOMIC_WRITE: fi_op = 11;
pub const FI_CSWAP: fi_op = 12;
pub const FI_CSWAP_NE: fi_op = 13;
pub const FI_CSWAP_LE: fi_op = 14;
pub const FI_CSWAP_LT: fi_op = 15;
pub const FI_CSWAP_GE: fi_op = 16;
pub const FI_CSWAP_GT: fi_op = 17;
pub const FI_MSWAP: fi_op = 18;
pub const FI_ATOMIC_OP_LAST: fi_op = 19;
pub const FI_NOOP: fi_op = 256;
pub type fi_op = libc::c_uint;
pub const FI_BARRIER: fi_collective_op = 0;
pub const FI_BROADCAST: fi_collective_op = 1;
pub const FI_ALLTOALL: fi_collective_op = 2;
pub const FI_ALLREDUCE: fi_collective_op = 3;
pub const FI_ALLGATHER: fi_collective_op = 4;
pub const FI_REDUCE_SCATTER: fi_collective_op = 5;
pub const FI_REDUCE: fi_collective_op = 6;
pub const FI_SCATTER: fi_collective_op = 7;
pub const FI_GATHER: fi_collective_op = 8;
pub type fi_collective_op = libc::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct fi_collective_attr {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub scalable_ep: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            sep: *mut *mut fid_ep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub cntr_open: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_cntr_attr,
            cntr: *mut *mut fid_cntr,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub poll_open: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_poll_attr,
            pollset: *mut *mut fid_poll,
        ) -> libc::c_int,
    >,
    pub stx_ctx: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_tx_attr,
            stx: *mut *mut fid_stx,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub srx_ctx: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub query_atomic: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            datatype: fi_datatype,
            op: fi_op,
            attr: *mut fi_atomic_attr,
            flags: u64,
        ) -> libc::c_int,
    >,
    pub query_collective: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            coll: fi_collective_op,
            attr: *mut fi_collective_attr,
            flags: u64,
        ) -> libc::c_int,
    >,
    pub endpoint2: ::core::option::Option<
        unsafe extern "C" fn(
            domain: *mut fid_domain,
            info: *mut fi_info,
            ep: *mut *mut fid_ep,
            flags: u64,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_domain"][::core::mem::size_of::<fi_ops_domain>() - 96usize];
    ["Alignment of fi_ops_domain"][::core::mem::align_of::<fi_ops_domain>() - 8usize];
    ["Offset of field: fi_ops_domain::size"][::core::mem::offset_of!(fi_ops_domain, size) - 0usize];
    ["Offset of field: fi_ops_domain::av_open"]
        [::core::mem::offset_of!(fi_ops_domain, av_open) - 8usize];
    ["Offset of field: fi_ops_domain::cq_open"]
        [::core::mem::offset_of!(fi_ops_domain, cq_open) - 16usize];
    ["Offset of field: fi_ops_domain::endpoint"]
        [::core::mem::offset_of!(fi_ops_domain, endpoint) - 24usize];
    ["Offset of field: fi_ops_domain::scalable_ep"]
        [::core::mem::offset_of!(fi_ops_domain, scalable_ep) - 32usize];
    ["Offset of field: fi_ops_domain::cntr_open"]
        [::core::mem::offset_of!(fi_ops_domain, cntr_open) - 40usize];
    ["Offset of field: fi_ops_domain::poll_open"]
        [::core::mem::offset_of!(fi_ops_domain, poll_open) - 48usize];
    ["Offset of field: fi_ops_domain::stx_ctx"]
        [::core::mem::offset_of!(fi_ops_domain, stx_ctx) - 56usize];
    ["Offset of field: fi_ops_domain::srx_ctx"]
        [::core::mem::offset_of!(fi_ops_domain, srx_ctx) - 64usize];
    ["Offset of field: fi_ops_domain::query_atomic"]
        [::core::mem::offset_of!(fi_ops_domain, query_atomic) - 72usize];
    ["Offset of field: fi_ops_domain::query_collective"]
        [::core::mem::offset_of!(fi_ops_domain, query_collective) - 80usize];
    ["Offset of field: fi_ops_domain::endpoint2"]
        [::core::mem::offset_of!(fi_ops_domain, endpoint2) - 88usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub regv: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            iov: *const iovec,
            count: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub regattr: ::core::option::Option<
        unsafe extern "C" fn(
            fid: *mut fid,
            attr: *const fi_mr_attr,
            flags: u64,
            mr: *mut *mut fid_mr,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_mr"][::core::mem::size_of::<fi_ops_mr>() - 32usize];
    ["Alignment of fi_ops_mr"][::core::mem::align_of::<fi_ops_mr>() - 8usize];
    ["Offset of field: fi_ops_mr::size"][::core::mem::offset_of!(fi_ops_mr, size) - 0usize];
    ["Offset of field: fi_ops_mr::reg"][::core::mem::offset_of!(fi_ops_mr, reg) - 8usize];
    ["Offset of field: fi_ops_mr::regv"][::core::mem::offset_of!(fi_ops_mr, regv) - 16usize];
    ["Offset of field: fi_ops_mr::regattr"][::core::mem::offset_of!(fi_ops_mr, regattr) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_domain"][::core::mem::size_of::<fid_domain>() - 40usize];
    ["Alignment of fid_domain"][::core::mem::align_of::<fid_domain>() - 8usize];
    ["Offset of field: fid_domain::fid"][::core::mem::offset_of!(fid_domain, fid) - 0usize];
    ["Offset of field: fid_domain::ops"][::core::mem::offset_of!(fid_domain, ops) - 24usize];
    ["Offset of field: fid_domain::mr"][::core::mem::offset_of!(fid_domain, mr) - 32usize];
};
impl Default for fid_domain {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_msg {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 48usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_msg"][::core::mem::size_of::<fi_msg>() - 48usize];
    ["Alignment of fi_msg"][::core::mem::align_of::<fi_msg>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: ::core::option::Option<
        unsafe extern "C" fn(fid: fid_t, context: *mut libc::c_void) -> isize,
    >,
    pub getopt: ::core::option::Option<
        unsafe extern "C" fn(
            fid: fid_t,
            level: libc::c_int,
            optname: libc::c_int,
            optval: *mut libc::c_void,
            optlen: *mut usize,
        ) -> libc::c_int,
    >,
    pub setopt: ::core::option::Option<
        unsafe extern "C" fn(
            fid: fid_t,
            level: libc::c_int,
            optname: libc::c_int,
            optval: *const libc::c_void,
            optlen: usize,
        ) -> libc::c_int,
    >,
    pub tx_ctx: ::core::option::Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: libc::c_int,
            attr: *mut fi_tx_attr,
            tx_ep: *mut *mut fid_ep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub rx_ctx: ::core::option::Option<
        unsafe extern "C" fn(
            sep: *mut fid_ep,
            index: libc::c_int,
            attr: *mut fi_rx_attr,
            rx_ep: *mut *mut fid_ep,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
    pub rx_size_left: ::core::option::Option<unsafe extern "C" fn(ep: *mut fid_ep) -> isize>,
    pub tx_size_left: ::core::option::Option<unsafe extern "C" fn(ep: *mut fid_ep) -> isize>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_ep"][::core::mem::size_of::<fi_ops_ep>() - 64usize];
    ["Alignment of fi_ops_ep"][::core::mem::align_of::<fi_ops_ep>() - 8usize];
    ["Offset of field: fi_ops_ep::size"][::core::mem::offset_of!(fi_ops_ep, size) - 0usize];
    ["Offset of field: fi_ops_ep::cancel"][::core::mem::offset_of!(fi_ops_ep, cancel) - 8usize];
    ["Offset of field: fi_ops_ep::getopt"][::core::mem::offset_of!(fi_ops_ep, getopt) - 16usize];
    ["Offset of field: fi_ops_ep::setopt"][::core::mem::offset_of!(fi_ops_ep, setopt) - 24usize];
    ["Offset of field: fi_ops_ep::tx_ctx"][::core::mem::offset_of!(fi_ops_ep, tx_ctx) - 32usize];
    ["Offset of field: fi_ops_ep::rx_ctx"][::core::mem::offset_of!(fi_ops_ep, rx_ctx) - 40usize];
    ["Offset of field: fi_ops_ep::rx_size_left"]
        [::core::mem::offset_of!(fi_ops_ep, rx_size_left) - 48usize];
    ["Offset of field: fi_ops_ep::tx_size_left"]
        [::core::mem::offset_of!(fi_ops_ep, tx_size_left) - 56usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub recvv: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut libc::c_void,
            count: usize,
            src_addr: fi_addr_t,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub recvmsg: ::core::option::Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize,
    >,
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
    pub sendv: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut libc::c_void,
            count: usize,
            dest_addr: fi_addr_t,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub sendmsg: ::core::option::Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize,
    >,
    pub inject: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            dest_addr: fi_addr_t,
        ) -> isize,
    >,
    pub senddata: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            data: u64,
            dest_addr: fi_addr_t,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub injectdata: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
        ) -> isize,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_msg"][::core::mem::size_of::<fi_ops_msg>() - 80usize];
    ["Alignment of fi_ops_msg"][::core::mem::align_of::<fi_ops_msg>() - 8usize];
    ["Offset of field: fi_ops_msg::size"][::core::mem::offset_of!(fi_ops_msg, size) - 0usize];
    ["Offset of field: fi_ops_msg::recv"][::core::mem::offset_of!(fi_ops_msg, recv) - 8usize];
    ["Offset of field: fi_ops_msg::recvv"][::core::mem::offset_of!(fi_ops_msg, recvv) - 16usize];
    ["Offset of field: fi_ops_msg::recvmsg"]
        [::core::mem::offset_of!(fi_ops_msg, recvmsg) - 24usize];
    ["Offset of field: fi_ops_msg::send"][::core::mem::offset_of!(fi_ops_msg, send) - 32usize];
    ["Offset of field: fi_ops_msg::sendv"][::core::mem::offset_of!(fi_ops_msg, sendv) - 40usize];
    ["Offset of field: fi_ops_msg::sendmsg"]
        [::core::mem::offset_of!(fi_ops_msg, sendmsg) - 48usize];
    ["Offset of field: fi_ops_msg::inject"][::core::mem::offset_of!(fi_ops_msg, inject) - 56usize];
    ["Offset of field: fi_ops_msg::senddata"]
        [::core::mem::offset_of!(fi_ops_msg, senddata) - 64usize];
    ["Offset of field: fi_ops_msg::injectdata"]
        [::core::mem::offset_of!(fi_ops_msg, injectdata) - 72usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_tagged {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_collective {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_ep"][::core::mem::size_of::<fid_ep>() - 80usize];
    ["Alignment of fid_ep"][::core::mem::align_of::<fid_ep>() - 8usize];
    ["Offset of field: fid_ep::fid"][::core::mem::offset_of!(fid_ep, fid) - 0usize];
    ["Offset of field: fid_ep::ops"][::core::mem::offset_of!(fid_ep, ops) - 24usize];
    ["Offset of field: fid_ep::cm"][::core::mem::offset_of!(fid_ep, cm) - 32usize];
    ["Offset of field: fid_ep::msg"][::core::mem::offset_of!(fid_ep, msg) - 40usize];
    ["Offset of field: fid_ep::rma"][::core::mem::offset_of!(fid_ep, rma) - 48usize];
    ["Offset of field: fid_ep::tagged"][::core::mem::offset_of!(fid_ep, tagged) - 56usize];
    ["Offset of field: fid_ep::atomic"][::core::mem::offset_of!(fid_ep, atomic) - 64usize];
    ["Offset of field: fid_ep::collective"][::core::mem::offset_of!(fid_ep, collective) - 72usize];
};
impl Default for fid_ep {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_pep {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 40usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_pep"][::core::mem::size_of::<fid_pep>() - 40usize];
    ["Alignment of fid_pep"][::core::mem::align_of::<fid_pep>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_stx {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_stx"][::core::mem::size_of::<fid_stx>() - 32usize];
    ["Alignment of fid_stx"][::core::mem::align_of::<fid_stx>() - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fid_mc {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 32usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fid_mc"][::core::mem::size_of::<fid_mc>() - 32usize];
    ["Alignment of fid_mc"][::core::mem::align_of::<fid_mc>() - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: ::core::option::Option<
        unsafe extern "C" fn(fid: fid_t, addr: *mut libc::c_void, addrlen: usize) -> libc::c_int,
    >,
    pub getname: ::core::option::Option<
        unsafe extern "C" fn(
            fid: fid_t,
            addr: *mut libc::c_void,
            addrlen: *mut usize,
        ) -> libc::c_int,
    >,
    pub getpeer: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            addr: *mut libc::c_void,
            addrlen: *mut usize,
        ) -> libc::c_int,
    >,
    pub connect: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            addr: *const libc::c_void,
            param: *const libc::c_void,
            paramlen: usize,
        ) -> libc::c_int,
    >,
    pub listen: ::core::option::Option<unsafe extern "C" fn(pep: *mut fid_pep) -> libc::c_int>,
    pub accept: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            param: *const libc::c_void,
            paramlen: usize,
        ) -> libc::c_int,
    >,
    pub reject: ::core::option::Option<
        unsafe extern "C" fn(
            pep: *mut fid_pep,
            handle: fid_t,
            param: *const libc::c_void,
            paramlen: usize,
        ) -> libc::c_int,
    >,
    pub shutdown:
        ::core::option::Option<unsafe extern "C" fn(ep: *mut fid_ep, flags: u64) -> libc::c_int>,
    pub join: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            addr: *const libc::c_void,
            flags: u64,
            mc: *mut *mut fid_mc,
            context: *mut libc::c_void,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_cm"][::core::mem::size_of::<fi_ops_cm>() - 80usize];
    ["Alignment of fi_ops_cm"][::core::mem::align_of::<fi_ops_cm>() - 8usize];
    ["Offset of field: fi_ops_cm::size"][::core::mem::offset_of!(fi_ops_cm, size) - 0usize];
    ["Offset of field: fi_ops_cm::setname"][::core::mem::offset_of!(fi_ops_cm, setname) - 8usize];
    ["Offset of field: fi_ops_cm::getname"][::core::mem::offset_of!(fi_ops_cm, getname) - 16usize];
    ["Offset of field: fi_ops_cm::getpeer"][::core::mem::offset_of!(fi_ops_cm, getpeer) - 24usize];
    ["Offset of field: fi_ops_cm::connect"][::core::mem::offset_of!(fi_ops_cm, connect) - 32usize];
    ["Offset of field: fi_ops_cm::listen"][::core::mem::offset_of!(fi_ops_cm, listen) - 40usize];
    ["Offset of field: fi_ops_cm::accept"][::core::mem::offset_of!(fi_ops_cm, accept) - 48usize];
    ["Offset of field: fi_ops_cm::reject"][::core::mem::offset_of!(fi_ops_cm, reject) - 56usize];
    ["Offset of field: fi_ops_cm::shutdown"]
        [::core::mem::offset_of!(fi_ops_cm, shutdown) - 64usize];
    ["Offset of field: fi_ops_cm::join"][::core::mem::offset_of!(fi_ops_cm, join) - 72usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_rma_iov"][::core::mem::size_of::<fi_rma_iov>() - 24usize];
    ["Alignment of fi_rma_iov"][::core::mem::align_of::<fi_rma_iov>() - 8usize];
    ["Offset of field: fi_rma_iov::addr"][::core::mem::offset_of!(fi_rma_iov, addr) - 0usize];
    ["Offset of field: fi_rma_iov::len"][::core::mem::offset_of!(fi_rma_iov, len) - 8usize];
    ["Offset of field: fi_rma_iov::key"][::core::mem::offset_of!(fi_rma_iov, key) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_msg_rma"][::core::mem::size_of::<fi_msg_rma>() - 64usize];
    ["Alignment of fi_msg_rma"][::core::mem::align_of::<fi_msg_rma>() - 8usize];
    ["Offset of field: fi_msg_rma::msg_iov"][::core::mem::offset_of!(fi_msg_rma, msg_iov) - 0usize];
    ["Offset of field: fi_msg_rma::desc"][::core::mem::offset_of!(fi_msg_rma, desc) - 8usize];
    ["Offset of field: fi_msg_rma::iov_count"]
        [::core::mem::offset_of!(fi_msg_rma, iov_count) - 16usize];
    ["Offset of field: fi_msg_rma::addr"][::core::mem::offset_of!(fi_msg_rma, addr) - 24usize];
    ["Offset of field: fi_msg_rma::rma_iov"]
        [::core::mem::offset_of!(fi_msg_rma, rma_iov) - 32usize];
    ["Offset of field: fi_msg_rma::rma_iov_count"]
        [::core::mem::offset_of!(fi_msg_rma, rma_iov_count) - 40usize];
    ["Offset of field: fi_msg_rma::context"]
        [::core::mem::offset_of!(fi_msg_rma, context) - 48usize];
    ["Offset of field: fi_msg_rma::data"][::core::mem::offset_of!(fi_msg_rma, data) - 56usize];
};
impl Default for fi_msg_rma {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
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
    pub readv: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut libc::c_void,
            count: usize,
            src_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub readmsg: ::core::option::Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize,
    >,
    pub write: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub writev: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut libc::c_void,
            count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut libc::c_void,
        ) -> isize,
    >,
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
    pub writedata: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            desc: *mut libc::c_void,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub injectdata: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
        ) -> isize,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_rma"][::core::mem::size_of::<fi_ops_rma>() - 80usize];
    ["Alignment of fi_ops_rma"][::core::mem::align_of::<fi_ops_rma>() - 8usize];
    ["Offset of field: fi_ops_rma::size"][::core::mem::offset_of!(fi_ops_rma, size) - 0usize];
    ["Offset of field: fi_ops_rma::read"][::core::mem::offset_of!(fi_ops_rma, read) - 8usize];
    ["Offset of field: fi_ops_rma::readv"][::core::mem::offset_of!(fi_ops_rma, readv) - 16usize];
    ["Offset of field: fi_ops_rma::readmsg"]
        [::core::mem::offset_of!(fi_ops_rma, readmsg) - 24usize];
    ["Offset of field: fi_ops_rma::write"][::core::mem::offset_of!(fi_ops_rma, write) - 32usize];
    ["Offset of field: fi_ops_rma::writev"][::core::mem::offset_of!(fi_ops_rma, writev) - 40usize];
    ["Offset of field: fi_ops_rma::writemsg"]
        [::core::mem::offset_of!(fi_ops_rma, writemsg) - 48usize];
    ["Offset of field: fi_ops_rma::inject"][::core::mem::offset_of!(fi_ops_rma, inject) - 56usize];
    ["Offset of field: fi_ops_rma::writedata"]
        [::core::mem::offset_of!(fi_ops_rma, writedata) - 64usize];
    ["Offset of field: fi_ops_rma::injectdata"]
        [::core::mem::offset_of!(fi_ops_rma, injectdata) - 72usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_atomic_attr {
    pub count: usize,
    pub size: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_atomic_attr"][::core::mem::size_of::<fi_atomic_attr>() - 16usize];
    ["Alignment of fi_atomic_attr"][::core::mem::align_of::<fi_atomic_attr>() - 8usize];
    ["Offset of field: fi_atomic_attr::count"]
        [::core::mem::offset_of!(fi_atomic_attr, count) - 0usize];
    ["Offset of field: fi_atomic_attr::size"]
        [::core::mem::offset_of!(fi_atomic_attr, size) - 8usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Default, Copy, Clone)]
pub struct fi_msg_atomic {
    pub _bindgen_opaque_blob: __BindgenOpaqueArray8<[u8; 72usize]>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_msg_atomic"][::core::mem::size_of::<fi_msg_atomic>() - 72usize];
    ["Alignment of fi_msg_atomic"][::core::mem::align_of::<fi_msg_atomic>() - 8usize];
};
#[repr(C)]
#[derive(Default, Copy, Clone)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            count: usize,
            desc: *mut libc::c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub writev: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const fi_ioc,
            desc: *mut *mut libc::c_void,
            count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub writemsg: ::core::option::Option<
        unsafe extern "C" fn(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize,
    >,
    pub inject: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
        ) -> isize,
    >,
    pub readwrite: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            count: usize,
            desc: *mut libc::c_void,
            result: *mut libc::c_void,
            result_desc: *mut libc::c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub readwritev: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const fi_ioc,
            desc: *mut *mut libc::c_void,
            count: usize,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut libc::c_void,
            result_count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub readwritemsg: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            msg: *const fi_msg_atomic,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut libc::c_void,
            result_count: usize,
            flags: u64,
        ) -> isize,
    >,
    pub compwrite: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            buf: *const libc::c_void,
            count: usize,
            desc: *mut libc::c_void,
            compare: *const libc::c_void,
            compare_desc: *mut libc::c_void,
            result: *mut libc::c_void,
            result_desc: *mut libc::c_void,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub compwritev: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            iov: *const fi_ioc,
            desc: *mut *mut libc::c_void,
            count: usize,
            comparev: *const fi_ioc,
            compare_desc: *mut *mut libc::c_void,
            compare_count: usize,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut libc::c_void,
            result_count: usize,
            dest_addr: fi_addr_t,
            addr: u64,
            key: u64,
            datatype: fi_datatype,
            op: fi_op,
            context: *mut libc::c_void,
        ) -> isize,
    >,
    pub compwritemsg: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            msg: *const fi_msg_atomic,
            comparev: *const fi_ioc,
            compare_desc: *mut *mut libc::c_void,
            compare_count: usize,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut libc::c_void,
            result_count: usize,
            flags: u64,
        ) -> isize,
    >,
    pub writevalid: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            datatype: fi_datatype,
            op: fi_op,
            count: *mut usize,
        ) -> libc::c_int,
    >,
    pub readwritevalid: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            datatype: fi_datatype,
            op: fi_op,
            count: *mut usize,
        ) -> libc::c_int,
    >,
    pub compwritevalid: ::core::option::Option<
        unsafe extern "C" fn(
            ep: *mut fid_ep,
            datatype: fi_datatype,
            op: fi_op,
            count: *mut usize,
        ) -> libc::c_int,
    >,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of fi_ops_atomic"][::core::mem::size_of::<fi_ops_atomic>() - 112usize];
    ["Alignment of fi_ops_atomic"][::core::mem::align_of::<fi_ops_atomic>() - 8usize];
    ["Offset of field: fi_ops_atomic::size"][::core::mem::offset_of!(fi_ops_atomic, size) - 0usize];
    ["Offset of field: fi_ops_atomic::write"]
        [::core::mem::offset_of!(fi_ops_atomic, write) - 8usize];
    ["Offset of field: fi_ops_atomic::writev"]
        [::core::mem::offset_of!(fi_ops_atomic, writev) - 16usize];
    ["Offset of field: fi_ops_atomic::writemsg"]
        [::core::mem::offset_of!(fi_ops_atomic, writemsg) - 24usize];
    ["Offset of field: fi_ops_atomic::inject"]
        [::core::mem::offset_of!(fi_ops_atomic, inject) - 32usize];
    ["Offset of field: fi_ops_atomic::readwrite"]
        [::core::mem::offset_of!(fi_ops_atomic, readwrite) - 40usize];
    ["Offset of field: fi_ops_atomic::readwritev"]
        [::core::mem::offset_of!(fi_ops_atomic, readwritev) - 48usize];
    ["Offset of field: fi_ops_atomic::readwritemsg"]
        [::core::mem::offset_of!(fi_ops_atomic, readwritemsg) - 56usize];
    ["Offset of field: fi_ops_atomic::compwrite"]
        [::core::mem::offset_of!(fi_ops_atomic, compwrite) - 64usize];
    ["Offset of field: fi_ops_atomic::compwritev"]
        [::core::mem::offset_of!(fi_ops_atomic, compwritev) - 72usize];
    ["Offset of field: fi_ops_atomic::compwritemsg"]
        [::core::mem::offset_of!(fi_ops_atomic, compwritemsg) - 80usize];
    ["Offset of field: fi_ops_atomic::writevalid"]
        [::core::mem::offset_of!(fi_ops_atomic, writevalid) - 88usize];
    ["Offset of field: fi_ops_atomic::readwritevalid"]
        [::core::mem::offset_of!(fi_ops_atomic, readwritevalid) - 96usize];
    ["Offset of field: fi_ops_atomic::compwritevalid"]
        [::core::mem::offset_of!(fi_ops_atomic, compwritevalid) - 104usize];
};

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
pub const FI_TRANSMIT_COMPLETE: u64 = 0x8000000;
pub const FI_INJECT_COMPLETE: u64 = 0x4000000;
pub const FI_FETCH_ATOMIC: u64 = 0x400000000000000;
pub const FI_COMPARE_ATOMIC: u64 = 0x800000000000000;
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
pub const FI_LOCAL_COMM: u64 = 0x8000000000000;
pub const FI_REMOTE_COMM: u64 = 0x10000000000000;
pub const FI_SELECTIVE_COMPLETION: u64 = 0x800000000000000;
pub const FI_EAGAIN: isize = 11;
pub const FI_ENODATA: isize = 61;
pub const FI_ENOSYS: isize = 38;
pub const FI_EAVAIL: isize = 259;
pub const FI_ETRUNC: isize = 265;
pub const FI_ECANCELED: isize = 125;
pub const FI_ETOOSMALL: isize = 257;
pub const FI_EINVAL: isize = 22;
pub const FI_EOPNOTSUPP: isize = 95;
pub const FI_ENOPROTOOPT: isize = 92;
pub const FI_EBUSY: isize = 16;
pub const FI_ENOKEY: isize = 266;
