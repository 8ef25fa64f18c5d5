//! Persistent and partitioned requests: what each of them sends, counted when it starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::traffic::BlockReceiver;
use crate::types::MPI_Request;

/// What one start of a request sends.
#[derive(Clone)]
pub struct Prepared {
    /// Number of the call that prepared it.
    pub id: u16,
    /// Receiver; `None` for collectives.
    pub peer: Option<u32>,
    /// Bytes.
    pub bytes: u64,
    /// The blocks of a collective, and to whom.
    pub blocks: Arc<[(BlockReceiver, u64)]>,
}

static PREPARED: Mutex<Option<HashMap<MPI_Request, Prepared>>> = Mutex::new(None);

/// A request was prepared.
pub fn remember(request: MPI_Request, prepared: Prepared) {
    let mut table = PREPARED.lock().expect("no panic while locked");
    table.get_or_insert_default().insert(request, prepared);
}

/// What a request sends that starts now, if it sends.
pub fn get(request: MPI_Request) -> Option<Prepared> {
    let table = PREPARED.lock().expect("no panic while locked");
    table.as_ref()?.get(&request).cloned()
}

/// The request at this address is about to be freed.
///
/// # Safety
/// The address is null or that of a request.
pub unsafe fn forget(request: *const MPI_Request) {
    let mut table = PREPARED.lock().expect("no panic while locked");
    // SAFETY: as the caller promises.
    if let (Some(table), Some(request)) = (table.as_mut(), unsafe { request.as_ref() }) {
        table.remove(request);
    }
}
