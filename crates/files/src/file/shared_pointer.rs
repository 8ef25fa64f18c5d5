//! The shared file pointer: a word in memory that all ranks of the file share, or of a window at
//! the first of them where they share none.

use std::sync::Arc;

use mica_collective::members::Members;
use mica_memory::Block;
use mica_objects::constants as c;
use mica_objects::error::Result;
use mica_objects::info::Info;
use mica_rma::{FlushedSide, SingleElement, Window, WindowSpec, fetch_and_op};

use crate::guard::SharedWords;

/// Where the shared file pointer is.
#[derive(Debug)]
pub enum SharedPointer {
    /// In memory of the node.
    Words(SharedWords),
    /// At the first rank, reached by one-sided operations.
    Window(Window),
}

impl SharedPointer {
    /// That of a file with these words, if its ranks share memory; else all ranks call it.
    ///
    /// # Errors
    /// Those of windows.
    pub fn new(members: &Arc<Members>, words: Option<SharedWords>) -> Result<SharedPointer> {
        if let Some(words) = words {
            return Ok(SharedPointer::Words(words));
        }
        let bytes = if members.rank() == 0 { 8 } else { 0 };
        let spec = WindowSpec::Allocate { bytes, unit: 8 };
        let window = Window::create(members, &spec, &Info::default())?;
        window.lock_all(0)?;
        Ok(SharedPointer::Window(window))
    }

    /// Adds to it; returns its value before.
    ///
    /// # Errors
    /// Those of one-sided operations.
    pub fn advance(&self, by: u64) -> Result<u64> {
        match self {
            SharedPointer::Words(words) => Ok(words.advance_pointer(by)),
            SharedPointer::Window(window) => combine(window, c::SUM, by),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// Those of one-sided operations.
    pub fn set(&self, value: u64) -> Result<()> {
        match self {
            SharedPointer::Words(words) => {
                words.set_pointer(value);
                Ok(())
            }
            SharedPointer::Window(window) => combine(window, c::REPLACE, value).map(drop),
        }
    }

    /// Frees it. All ranks call it.
    ///
    /// # Errors
    /// Those of windows.
    pub fn close(&self) -> Result<()> {
        match self {
            SharedPointer::Words(_) => Ok(()),
            SharedPointer::Window(window) => {
                window.unlock_all()?;
                Window::free(window.handle())
            }
        }
    }
}

fn combine(window: &Window, op: u32, value: u64) -> Result<u64> {
    let (origin, result) = (Block::allocate(8)?, Block::allocate(8)?);
    origin.write_bytes(&value.to_ne_bytes());
    let element = SingleElement { datatype: c::UINT64_T, rank: 0, disp: 0, result: &result };
    fetch_and_op(window.handle(), op, &element, &origin)?;
    window.flush(Some(0), FlushedSide::Both)?;
    let mut before = [0; 8];
    result.read_bytes(&mut before);
    Ok(u64::from_ne_bytes(before))
}
