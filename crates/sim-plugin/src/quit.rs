//! Ending the emulator.

/// Ends the emulator with a line on stderr.
pub fn fail(reason: &str) -> ! {
    eprintln!("mica sim: {reason}");
    quit(1)
}

/// Ends the emulator at once, without its exit handlers.
pub fn quit(code: i32) -> ! {
    // SAFETY: ends this process; plain call.
    unsafe { libc::_exit(code) }
}
