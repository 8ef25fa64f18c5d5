//! What goes wrong.

use super::kit::*;
use mica_channel::net::choice::Wish;
use mica_channel::net::{Net, NetError};

#[test]
fn a_missing_library_is_named() {
    let mut options = options("tcp");
    options.library = Some("/nowhere/libfabric.so.1".to_owned());
    let error = Net::open(&options).unwrap_err();
    assert!(matches!(error, NetError::Library { .. }));
    let text = error.to_string();
    assert!(
        text.contains("/nowhere/libfabric.so.1") && text.contains("MICA_NET_LIBRARY"),
        "{text}"
    );
}
