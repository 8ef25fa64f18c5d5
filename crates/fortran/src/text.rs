//! Texts: Fortran's have a length and end with blanks, C's end with a zero.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::abi::descriptor::DescribedText;
use crate::argument::{Describable, ParameterKind};

/// Texts up to this length are converted without an allocation.
const SHORT: usize = 120;
/// The longest text that MPI returns (`MPI_MAX_LIBRARY_VERSION_STRING`), with its zero.
const LONGEST: usize = 8193;
const BLANK: u8 = b' ';

/// A text of C.
#[derive(Debug)]
pub enum CText {
    /// None was given.
    Missing,
    /// At most [`SHORT`] characters.
    Short([u8; SHORT + 1]),
    /// Any number.
    Long(Vec<u8>),
}

impl CText {
    /// The text of these characters, with a zero behind them. `None`: there is no memory.
    pub fn new(text: &[u8]) -> Option<CText> {
        if text.len() <= SHORT {
            let mut short = [0; SHORT + 1];
            short[..text.len()].copy_from_slice(text);
            return Some(CText::Short(short));
        }
        let mut long = Vec::new();
        long.try_reserve_exact(text.len() + 1).ok()?;
        long.extend_from_slice(text);
        long.push(0);
        Some(CText::Long(long))
    }

    /// Its address.
    pub fn as_ptr(&self) -> *const c_char {
        match self {
            CText::Missing => std::ptr::null(),
            CText::Short(text) => text.as_ptr().cast(),
            CText::Long(text) => text.as_ptr().cast(),
        }
    }
}

/// The characters of a text of Fortran without the blanks behind them.
///
/// # Safety
/// `len` characters are readable, or the address is null.
pub unsafe fn characters<'a>(given: *const c_char, len: usize) -> &'a [u8] {
    if given.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    let text = unsafe { std::slice::from_raw_parts(given.cast::<u8>(), len) };
    let end = text.iter().rposition(|&c| c != BLANK).map_or(0, |last| last + 1);
    &text[..end]
}

/// A text that C reads.
#[derive(Debug)]
pub struct InText;

impl Describable for InText {
    type Described = DescribedText;
}

impl ParameterKind for InText {
    type Given = *const c_char;
    type Passed = *const c_char;
    type Held = CText;

    unsafe fn enter(given: *const c_char, len: usize) -> Option<CText> {
        if given.is_null() {
            return Some(CText::Missing);
        }
        // SAFETY: as the caller promises.
        CText::new(unsafe { characters(given, len) })
    }

    fn pass(held: &mut CText) -> *const c_char {
        held.as_ptr()
    }
}

/// A key or a value of an info object, without the blanks around it (MPI 5.0, 10).
#[derive(Debug)]
pub struct InInfoText;

impl ParameterKind for InInfoText {
    type Given = *const c_char;
    type Passed = *const c_char;
    type Held = CText;

    unsafe fn enter(given: *const c_char, len: usize) -> Option<CText> {
        if given.is_null() {
            return Some(CText::Missing);
        }
        // SAFETY: as the caller promises.
        let text = unsafe { characters(given, len) };
        let start = text.iter().position(|&c| c != BLANK).unwrap_or(text.len());
        CText::new(&text[start..])
    }

    fn pass(held: &mut CText) -> *const c_char {
        held.as_ptr()
    }
}

/// Stores a text of C where Fortran has room for `len` characters, with blanks behind it.
///
/// # Safety
/// `text` ends with a zero; `len` characters are writable at `place`, or it is null.
pub unsafe fn give(text: *const c_char, place: *mut c_char, len: usize) {
    if place.is_null() {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let written = libc::strnlen(text, len);
        place.copy_from_nonoverlapping(text, written);
        place.add(written).write_bytes(BLANK, len - written);
    }
}

/// A place for a text.
#[derive(Debug)]
pub struct OutText;

/// A place of Fortran for a text, and C's, whose first character is no text's before the call.
#[derive(Debug)]
pub struct TextPlace {
    place: *mut c_char,
    len: usize,
    text: MaybeUninit<[u8; LONGEST]>,
}

/// Not the beginning of a text: no character of UTF-8.
pub const UNTOUCHED: u8 = 0xFF;

impl ParameterKind for OutText {
    type Given = *mut c_char;
    type Passed = *mut c_char;
    type Held = TextPlace;

    unsafe fn enter(given: *mut c_char, len: usize) -> Option<TextPlace> {
        let mut text = MaybeUninit::<[u8; LONGEST]>::uninit();
        // SAFETY: its first byte.
        unsafe { text.as_mut_ptr().cast::<u8>().write(UNTOUCHED) };
        Some(TextPlace { place: given, len, text })
    }

    fn pass(held: &mut TextPlace) -> *mut c_char {
        if held.place.is_null() { std::ptr::null_mut() } else { held.text.as_mut_ptr().cast() }
    }

    unsafe fn leave(held: TextPlace) {
        let text: *const u8 = held.text.as_ptr().cast();
        // SAFETY: the first byte is written, and if the call has written it, a text with its zero;
        // the caller's place is as it promises.
        unsafe {
            if text.read() != UNTOUCHED {
                give(text.cast(), held.place, held.len);
            }
        }
    }
}
