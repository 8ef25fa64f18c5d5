//! This machine's network interfaces and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::check;

/// An address of a network interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// The address. Link-local IPv6 addresses are omitted: they need a scope, which address lists
    /// do not carry.
    pub address: IpAddr,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
}

/// The addresses of all interfaces that are up, in the system's order.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is valid for writes; what is stored there is freed below.
    check(unsafe { libc::getifaddrs(&mut list) })?;
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list is made of valid entries, and the last one's successor is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        let flags = entry.ifa_flags as i32;
        if flags & libc::IFF_UP == 0 {
            continue;
        }
        // SAFETY: the entry's address is null or a valid socket address.
        let Some(address) = (unsafe { address_of(entry.ifa_addr) }) else {
            continue;
        };
        // SAFETY: the name is a valid C string as long as the list lives.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            address,
            is_loopback: flags & libc::IFF_LOOPBACK != 0,
        });
    }
    // SAFETY: `list` came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The IP address in a socket address.
///
/// # Safety
/// `address` is null or points to a socket address of the size that its family implies.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller promises a socket address, which begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is a sockaddr_in.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let bits = u32::from_be(address.sin_addr.s_addr);
            Some(IpAddr::V4(Ipv4Addr::from_bits(bits)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is a sockaddr_in6.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then_some(IpAddr::V6(address))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|i| i.address == Ipv4Addr::LOCALHOST);
        assert!(loopback.unwrap().is_loopback, "{all:?}");
        let marked = all.iter().filter(|i| i.is_loopback);
        assert!(marked.map(|i| i.address).all(|a| a.is_loopback()));
    }
}
