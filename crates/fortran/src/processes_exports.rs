//! `MPI_Comm_spawn` and `MPI_Comm_spawn_multiple`: arrays of texts.

use std::ffi::{c_char, c_int};

use crate::abi::{Word, sentinel};
use crate::argument::to_c;
use crate::by_hand::{new_handle, text};
use crate::export::by_hand;
use crate::text::{CText, characters};

/// Texts of C, and the array of their addresses, which ends with a null.
#[derive(Default)]
struct Texts {
    texts: Vec<CText>,
    addresses: Vec<*const c_char>,
}

impl Texts {
    /// The texts at `place(0)` and so on, up to one of blanks. `None`: there is no memory.
    ///
    /// # Safety
    /// At each place up to that one `len` characters are readable.
    unsafe fn until_blank(place: impl Fn(usize) -> *const c_char, len: usize) -> Option<Texts> {
        let mut all = Texts::default();
        for i in 0.. {
            // SAFETY: as the caller promises.
            let characters = unsafe { characters(place(i), len) };
            if characters.is_empty() {
                break;
            }
            all.texts.push(CText::new(characters)?);
        }
        all.addresses = all.texts.iter().map(CText::as_ptr).collect();
        all.addresses.push(std::ptr::null());
        Some(all)
    }
}

by_hand! {
    MPI_Comm_spawn "comm_spawn" "COMM_SPAWN",
    fn(*const c_char, *const *const c_char, c_int, Word, c_int, Word, *mut Word, *mut c_int),
    |function, command: *const c_char, argv: *const c_char, maxprocs: *const c_int,
        info: *const c_int, root: *const c_int, comm: *const c_int, intercomm: *mut c_int,
        errcodes: *mut c_int; command_len, argv_len| {
        const CALL: &str = "MPI_Comm_spawn\0";
        let command = match text(command, command_len, CALL) {
            Ok(command) => command,
            Err(code) => return code,
        };
        let arguments = match sentinel::place(argv.cast_mut()).is_null() {
            true => None,
            false => match Texts::until_blank(|i| argv.add(i * argv_len), argv_len) {
                None => return crate::choice::no_memory(CALL, argv_len),
                texts => texts,
            },
        };
        let argv = arguments.as_ref().map_or(std::ptr::null(), |texts| texts.addresses.as_ptr());
        new_handle(intercomm, |intercomm| function(
            command.as_ptr(), argv, maxprocs.read(), to_c(info.read()), root.read(),
            to_c(comm.read()), intercomm, sentinel::place(errcodes),
        ))
    }
}

by_hand! {
    MPI_Comm_spawn_multiple "comm_spawn_multiple" "COMM_SPAWN_MULTIPLE",
    fn(c_int, *const *const c_char, *const *const *const c_char, *const c_int, *const Word, c_int,
        Word, *mut Word, *mut c_int),
    |function, count: *const c_int, commands: *const c_char, argvs: *const c_char,
        maxprocs: *const c_int, infos: *const c_int, root: *const c_int, comm: *const c_int,
        intercomm: *mut c_int, errcodes: *mut c_int; command_len, argv_len| {
        const CALL: &str = "MPI_Comm_spawn_multiple\0";
        let number = usize::try_from(count.read()).unwrap_or(0);
        let (mut names, mut arguments) = (Vec::new(), Vec::new());
        let has_arguments = !sentinel::place(argvs.cast_mut()).is_null();
        for i in 0..number {
            match text(commands.add(i * command_len), command_len, CALL) {
                Ok(name) => names.push(name),
                Err(code) => return code,
            }
            if has_arguments {
                // The arguments of a command are a row of the array.
                let row = |j| argvs.add((i + j * number) * argv_len);
                match Texts::until_blank(row, argv_len) {
                    Some(texts) => arguments.push(texts),
                    None => return crate::choice::no_memory(CALL, argv_len),
                }
            }
        }
        let names_of: Vec<_> = names.iter().map(CText::as_ptr).collect();
        let argv_of: Vec<_> = arguments.iter().map(|texts| texts.addresses.as_ptr()).collect();
        let argvs = if has_arguments { argv_of.as_ptr() } else { std::ptr::null() };
        let infos: Vec<Word> = (0..number).map(|i| to_c(infos.add(i).read())).collect();
        new_handle(intercomm, |intercomm| function(
            count.read(), names_of.as_ptr(), argvs, maxprocs, infos.as_ptr(), root.read(),
            to_c(comm.read()), intercomm, sentinel::place(errcodes),
        ))
    }
}
