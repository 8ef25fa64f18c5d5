//! What this Mica was built from, as `build.rs` has found it.

/// The build profile.
pub const PROFILE: &str = env!("MICA_BUILD_PROFILE");
/// The target that it was built for.
pub const TARGET: &str = env!("MICA_BUILD_TARGET");
/// The compiler's version.
pub const COMPILER: &str = env!("MICA_BUILD_COMPILER");

/// The commit, if that was a git repository.
pub fn commit() -> Option<&'static str> {
    Some(env!("MICA_BUILD_COMMIT")).filter(|commit| !commit.is_empty())
}
