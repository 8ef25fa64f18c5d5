//! Function, file and line of addresses in programs and shared objects, for the tools that name
//! places of a program: `mica profile` and the reports of `mpiexec`.
//!
//! They come from the debug information of the object (`addr2line`, `gimli`), or of the separate
//! file that distributions ship for it ([`separate`]); without either, the function comes from the
//! symbol table. Where a call was inlined, the innermost function is named, as a debugger does.

#![forbid(unsafe_code)]

mod separate;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use addr2line::Loader;

use separate::{DEBUG_FOLDER, SeparateFiles};

/// A place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourcePlace {
    /// The function, demangled.
    pub function: Option<String>,
    /// The file, as the debug information names it.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl SourcePlace {
    /// `solver.c:41`, if file and line are known.
    pub fn file_and_line(&self) -> Option<String> {
        let name = Path::new(self.file.as_ref()?).file_name()?.to_string_lossy();
        Some(format!("{name}:{}", self.line?))
    }
}

/// Resolves addresses; keeps the objects that it has opened.
pub struct Symbolizer {
    /// `None` where an object cannot be read (another node's).
    objects: HashMap<String, Option<OpenObject>>,
    /// Where separate files of debug information are installed.
    debug_folder: PathBuf,
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::with_debug_folder(DEBUG_FOLDER)
    }
}

/// An object, and its separate debug information if there is some.
struct OpenObject {
    own: Loader,
    separate: Option<Loader>,
}

impl Symbolizer {
    /// A resolver that finds separate debug information in this folder, in the place of
    /// `/usr/lib/debug`, and beside the objects.
    pub fn with_debug_folder(folder: impl Into<PathBuf>) -> Symbolizer {
        Symbolizer { objects: HashMap::new(), debug_folder: folder.into() }
    }

    /// The place of the instruction at this address of the object's file.
    pub fn place(&mut self, object: &str, address: u64) -> SourcePlace {
        let debug_folder = &self.debug_folder;
        let open = || OpenObject::open(Path::new(object), debug_folder);
        match self.objects.entry(object.to_owned()).or_insert_with(open) {
            Some(open) => open.place(address),
            None => SourcePlace::default(),
        }
    }

    /// The place of the call that returns to this address, which may belong to the next line: the
    /// byte before it is looked up.
    pub fn call(&mut self, object: &str, return_address: u64) -> SourcePlace {
        self.place(object, return_address.saturating_sub(1))
    }

    /// The place of that call, and then those of the calls that were inlined around it, as if each
    /// were a call. One at least.
    pub fn calls(&mut self, object: &str, return_address: u64) -> Vec<SourcePlace> {
        let address = return_address.saturating_sub(1);
        let mut places = vec![self.place(object, address)];
        if let Some(Some(open)) = self.objects.get(object) {
            places.extend(open.inlined_around(address));
        }
        places
    }
}

impl OpenObject {
    fn open(path: &Path, debug_folder: &Path) -> Option<OpenObject> {
        let files = SeparateFiles::find(path, debug_folder);
        let own = Loader::new_with_sup(path, files.own_supplement).ok()?;
        let separate =
            files.debug.and_then(|file| Loader::new_with_sup(file, files.debug_supplement).ok());
        Some(OpenObject { own, separate })
    }

    fn inlined_around(&self, address: u64) -> Vec<SourcePlace> {
        let mut all = self.separate.iter().chain([&self.own]).map(|loader| frames(loader, address));
        all.find(|places| !places.is_empty()).unwrap_or_default().into_iter().skip(1).collect()
    }

    fn place(&self, address: u64) -> SourcePlace {
        let mut place = SourcePlace::default();
        for loader in self.separate.iter().chain([&self.own]) {
            describe(loader, address, &mut place);
            if place.function.is_some() {
                break;
            }
        }
        place
    }
}

/// Fills what this file knows of the address.
fn describe(loader: &Loader, address: u64, place: &mut SourcePlace) {
    if let Some(innermost) = frames(loader, address).into_iter().next() {
        *place = innermost;
    }
    if place.function.is_none() {
        let symbol = loader.find_symbol(address);
        place.function =
            symbol.map(|name| addr2line::demangle_auto(name.into(), None).into_owned());
    }
}

/// The function of the address, innermost first, and those into which it was inlined.
fn frames(loader: &Loader, address: u64) -> Vec<SourcePlace> {
    let mut places = Vec::new();
    let Ok(mut frames) = loader.find_frames(address) else { return places };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| name.demangle().ok());
        let location = frame.location.as_ref();
        places.push(SourcePlace {
            function: name.map(|name| name.into_owned()),
            file: location.and_then(|location| location.file).map(str::to_owned),
            line: location.and_then(|location| location.line).filter(|line| *line > 0),
        });
    }
    places
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use object::{Object as _, ObjectSymbol as _};

    use super::*;

    /// 64 bytes of `inner` are inlined into `wanted`.
    const SOURCE: &str = "static inline __attribute__((always_inline)) int inner(int a)\n\
        {\n    __asm__ volatile(\".fill 64, 1, 0x90\");\n    return 3 * a;\n}\n\
        int wanted(int a)\n{\n    return inner(a);\n}\n\
        int main(void) { return wanted(0); }\n";

    /// A folder with a program that has a build-id and debug information.
    struct Built {
        folder: PathBuf,
        program: PathBuf,
        address: u64,
    }

    impl Built {
        fn new(test: &str, options: &[&str]) -> Built {
            let name = format!("mica-symbols-{test}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("source.c"), SOURCE).expect("own folder");
            let program = folder.join("program");
            let mut built = Built { folder, program, address: 0 };
            built.run("cc", &[&["-g", "-O0", "source.c", "-o", "program"], options].concat());
            let bytes = fs::read(&built.program).expect("a program");
            let file = object::File::parse(&*bytes).expect("ELF");
            let symbol = file.symbols().find(|symbol| symbol.name() == Ok("wanted"));
            built.address = symbol.expect("the function").address() + 5;
            built
        }

        fn run(&self, program: &str, arguments: &[&str]) {
            let status = Command::new(program).args(arguments).current_dir(&self.folder).status();
            assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
        }

        /// Moves the debug information to a file of its own, and strips the program.
        fn split(&self, debug: &str) {
            let debug = self.folder.join(debug);
            fs::create_dir_all(debug.parent().expect("a folder")).expect("own folder");
            let debug = debug.to_str().expect("UTF-8");
            self.run("objcopy", &["--only-keep-debug", "program", debug]);
            self.run("objcopy", &["--strip-all", "program"]);
        }

        fn place(&self) -> SourcePlace {
            let mut symbols = Symbolizer::with_debug_folder(self.folder.join("debug"));
            symbols.place(self.program.to_str().expect("UTF-8"), self.address)
        }

        fn expect_found(&self) {
            let place = self.place();
            assert_eq!(place.function.as_deref(), Some("wanted"), "{place:?}");
            let place = place.file_and_line().expect("a line");
            assert!(
                ["source.c:6", "source.c:7", "source.c:8"].contains(&place.as_str()),
                "{place}"
            );
        }
    }

    impl Drop for Built {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn names_function_and_line() {
        Built::new("own", &[]).expect_found();
    }

    #[test]
    fn names_the_calls_that_were_inlined() {
        let built = Built::new("inlined", &[]);
        let mut symbols = Symbolizer::default();
        // Among the 64 bytes, as no code without optimization takes as many before them.
        let calls = symbols.calls(built.program.to_str().expect("UTF-8"), built.address + 45);
        let names: Vec<&str> = calls.iter().filter_map(|c| c.function.as_deref()).collect();
        assert_eq!(names, ["inner", "wanted"], "{calls:?}");
    }

    #[test]
    fn finds_the_separate_file_by_its_build_id() {
        let built = Built::new("build-id", &["-Wl,--build-id=0xabcdef0123"]);
        built.split("debug/.build-id/ab/cdef0123.debug");
        built.expect_found();
    }

    #[test]
    fn finds_the_separate_file_by_its_name_and_checksum() {
        for (test, place) in [("beside", "program.debug"), ("below", ".debug/program.debug")] {
            let built = Built::new(test, &["-Wl,--build-id=none"]);
            built.split(place);
            built.run("objcopy", &[&format!("--add-gnu-debuglink={place}"), "program"]);
            built.expect_found();
        }
    }

    #[test]
    fn leaves_the_separate_file_of_another_build() {
        let built = Built::new("other", &["-Wl,--build-id=none"]);
        built.split("program.debug");
        built.run("objcopy", &["--add-gnu-debuglink=program.debug", "program"]);
        built.run("cc", &["-g", "-O0", "source.c", "-o", "later"]);
        built.run("objcopy", &["--only-keep-debug", "later", "program.debug"]);
        assert_eq!(built.place().file, None);
    }

    #[test]
    fn knows_nothing_of_an_object_that_is_not_there() {
        assert_eq!(Symbolizer::default().call("/nowhere", 5), SourcePlace::default());
        assert_eq!(SourcePlace::default().file_and_line(), None);
    }
}
