//! `mpiexec` as users start it.

mod binding;
mod cgroup;
mod common;
mod hosts;
mod mpiexec;
mod namespaces;
mod options;
mod output;
mod ssh;
mod wrappers;
