//! The recipes of `packaging` name the version, the licence and the Rust of `Cargo.toml`. Debian's
//! is filled in when a package is built.

use crate::sources::{text, workspace};

/// The value of a field of `Cargo.toml`, which stands there once, in quotes.
fn field(name: &str) -> String {
    let manifest = text(&workspace().join("Cargo.toml"));
    let start = format!("{name} = \"");
    let value = manifest.lines().find_map(|line| line.strip_prefix(start.as_str()));
    value.and_then(|rest| rest.strip_suffix('"')).unwrap_or_else(|| panic!("{name}")).to_owned()
}

#[test]
fn recipes_name_version_licence_and_rust() {
    let (version, license, rust) = (field("version"), field("license"), field("rust-version"));
    let spack = "packaging/spack/repos/spack_repo/mica/packages/mica_mpi/package.py".to_owned();
    let easybuild = format!("packaging/easybuild/Mica-{version}.eb");
    let conda = "packaging/conda/recipe.yaml".to_owned();
    let container = "packaging/Containerfile".to_owned();
    let mut missing = Vec::new();
    for (recipe, line) in [
        (&spack, format!("    version(\"{version}\")\n")),
        (&spack, format!("/mica-{version}.tar.gz\"\n")),
        (&spack, format!("--prefix=mica-{version}/ -o mica-{version}.tar.gz")),
        (&spack, format!("    license(\"{license}\")\n")),
        (&spack, format!("    depends_on(\"rust@{rust}:\", type=\"build\")\n")),
        (&easybuild, format!("\nversion = '{version}'\n")),
        (&easybuild, format!("--prefix=mica-{version}/ -o mica-{version}.tar.gz")),
        (&easybuild, format!("# Licence: {license}\n")),
        (&conda, format!("  version: \"{version}\"\n")),
        (&conda, format!("  license: {license}\n")),
        (&container, format!("/rust:{rust}-bookworm AS build\n")),
    ] {
        if !text(&workspace().join(recipe)).contains(&line) {
            missing.push(format!("{recipe}: {line:?}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
