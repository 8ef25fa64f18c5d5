//! What `mica` writes for an installation (`scripts/install_man.sh`): its manual pages and the
//! scripts of completion, from the declaration of its command line.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Writes a page for `mica` and one for each command below it; returns what is to be printed.
pub fn manual(mica: Command, folder: &Path) -> Result<String, Box<dyn Error>> {
    let failed = |error: io::Error| format!("cannot write to {}: {error}", folder.display());
    let mut mica = mica.disable_help_subcommand(true);
    mica.build();
    fs::create_dir_all(folder).and_then(|()| write_page(mica, folder)).map_err(failed)?;
    Ok(String::new())
}

/// Writes the page of a command and of those below it.
fn write_page(command: Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write_page(below.clone(), folder)?;
    }
    let man = Man::new(command).date("DATE").manual("Mica");
    let man = man.source(concat!("Mica ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).expect("pages are text");
    // The page has no date, which clap_mangen cannot say; and it puts breaks beside empty lines.
    let page = page
        .replacen(" DATE ", " \"\" ", 1)
        .replace(".br\n\n", "\n")
        .replace("\n\n.br\n", "\n.sp\n");
    fs::write(folder.join(man.get_filename()), page)
}

/// The script for a shell.
pub fn completion(mut mica: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut mica, "mica", &mut script);
    String::from_utf8(script).expect("scripts are text")
}
