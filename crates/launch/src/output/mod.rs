//! Output of the ranks, from their pipes to this process's output and to files.

pub mod file_writer;
pub mod line_output;
pub mod redirect;
pub mod stream;
pub mod writer;
mod writer_thread;
