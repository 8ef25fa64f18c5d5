//! Compares info objects with a plain list of pairs.

use mica_mpi::info::Info;

use crate::reader::Reader;

/// Makes four kinds of calls on one object.
pub fn run(bytes: &[u8]) {
    let mut calls = Reader::new(bytes);
    let handle = Info::default().into_handle().unwrap();
    let mut model: Vec<(String, String)> = Vec::new();
    while !calls.is_empty() {
        let (kind, key) = (calls.byte() % 5, key(&mut calls));
        let legal = !key.is_empty() && key.len() < 256;
        let at = model.iter().position(|(known, _)| *known == key);
        let info = Info::resolve(handle).expect("not freed");
        match kind {
            0 | 1 => {
                let value = calls.text().repeat(1 + usize::from(kind) * calls.below(30));
                let done = Info::set(handle, &key, &value);
                assert_eq!(done.is_ok(), legal && value.len() < 1024, "{key:?}={value:?}");
                if done.is_ok() {
                    match at {
                        Some(at) => model[at].1 = value,
                        None => model.push((key, value)),
                    }
                }
            }
            2 => {
                assert_eq!(Info::delete(handle, &key).is_ok(), at.is_some(), "{key:?}");
                if let Some(at) = at {
                    model.remove(at);
                }
            }
            3 => match info.get(&key) {
                Ok(value) => assert_eq!(value.as_ref(), at.map(|at| &model[at].1)),
                Err(_) => assert!(!legal, "{key:?}"),
            },
            _ => {
                let n = calls.integer() as i32;
                let expected = usize::try_from(n).ok().and_then(|n| model.get(n));
                assert_eq!(info.nth_key(n).ok().as_ref(), expected.map(|(key, _)| key));
            }
        }
        assert_eq!(info.entries(), model);
        assert_eq!(info.duplicate().entries(), model);
    }
    Info::free(handle).expect("an info object");
    assert!(Info::resolve(handle).is_err());
}

/// One of a few short keys mostly, so that calls use the same keys; else a text, of up to more than
/// the limit.
fn key(calls: &mut Reader) -> String {
    match calls.byte() {
        kind @ 0..=200 => char::from(b'a' + kind % 6).to_string(),
        201..=240 => calls.text(),
        _ => calls.text().repeat(4),
    }
}
