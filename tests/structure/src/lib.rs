//! Tests of the sources, which need nothing that is built: the dependency law, circles of imports,
//! places of modules and their tests, lengths of lines, flags, names of types, and what documents
//! and recipes name.

#![forbid(unsafe_code)]

#[cfg(test)]
mod circles;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod law;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod modules;
#[cfg(test)]
mod names;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod rooms;
#[cfg(test)]
mod sources;
