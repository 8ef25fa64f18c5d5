//! Tests of the sources, which need nothing that is built: the dependency law, circles of imports,
//! lengths of lines and functions, names of types, and what documents name.

#![forbid(unsafe_code)]

#[cfg(test)]
mod circles;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod law;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod names;
#[cfg(test)]
mod proofs;
#[cfg(test)]
mod signatures;

/// The workspace's root directory.
#[cfg(test)]
fn workspace() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/structure lies in the workspace").to_path_buf()
}
