//! Info objects by their handles.

use mica_objects::constants as c;
use mica_objects::info::Info;

fn code<T: std::fmt::Debug>(result: mica_objects::Result<T>) -> i32 {
    result.unwrap_err().code()
}

#[test]
fn pairs_are_kept_in_order_and_overwritten_in_place() {
    let handle = Info::default().into_handle().unwrap();
    for (key, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("empty", "")] {
        Info::set(handle, key, value).unwrap();
    }
    let info = Info::resolve(handle).unwrap();
    assert_eq!(info.len(), 3);
    assert_eq!(info.get("b").unwrap().as_deref(), Some("3"));
    assert_eq!(info.get("empty").unwrap().as_deref(), Some(""));
    assert_eq!(info.get("c").unwrap(), None);
    let keys: Vec<String> = (0..3).map(|n| info.nth_key(n).unwrap()).collect();
    assert_eq!(keys, ["b", "a", "empty"]);
    for wrong in [-1, 3] {
        assert_eq!(code(info.nth_key(wrong)), c::ERR_ARG);
    }
    Info::delete(handle, "b").unwrap();
    assert_eq!(code(Info::delete(handle, "b")), c::ERR_INFO_NOKEY);
    assert_eq!(info.nth_key(0).unwrap(), "a");
    Info::free(handle).unwrap();
    assert_eq!(code(Info::resolve(handle)), c::ERR_INFO);
    assert_eq!(code(Info::free(handle)), c::ERR_INFO);
}

#[test]
fn a_duplicate_goes_its_own_way() {
    let handle = Info::default().into_handle().unwrap();
    Info::set(handle, "key", "old").unwrap();
    let copy = Info::resolve(handle).unwrap().duplicate();
    Info::set(handle, "key", "new").unwrap();
    assert_eq!(copy.lookup("key").as_deref(), Some("old"));
    Info::free(handle).unwrap();
}

#[test]
fn lengths_are_checked() {
    let handle = Info::default().into_handle().unwrap();
    let longest_key = "k".repeat(c::MAX_INFO_KEY - 1);
    let longest_value = "v".repeat(c::MAX_INFO_VAL - 1);
    Info::set(handle, &longest_key, &longest_value).unwrap();
    let too_long_key = longest_key + "k";
    let too_long_value = longest_value + "v";
    for key in ["", &too_long_key] {
        assert_eq!(code(Info::set(handle, key, "v")), c::ERR_INFO_KEY);
        assert_eq!(code(Info::delete(handle, key)), c::ERR_INFO_KEY);
        assert_eq!(code(Info::resolve(handle).unwrap().get(key)), c::ERR_INFO_KEY);
    }
    let error = Info::set(handle, "k", &too_long_value).unwrap_err();
    assert_eq!(error.code(), c::ERR_INFO_VALUE);
    assert!(error.to_string().len() < 200, "long values are not repeated: {error}");
    Info::free(handle).unwrap();
}

#[test]
fn null_means_no_hints_only_where_hints_are_wanted() {
    assert!(Info::resolve_hints(c::INFO_NULL).unwrap().is_empty());
    assert_eq!(code(Info::resolve(c::INFO_NULL)), c::ERR_INFO);
    assert_eq!(code(Info::set(c::INFO_NULL, "k", "v")), c::ERR_INFO);
    assert_eq!(code(Info::free(c::INFO_NULL)), c::ERR_INFO);
    assert_eq!(code(Info::resolve_hints(c::COMM_WORLD)), c::ERR_INFO);
}

#[test]
fn the_environment_tells_the_start_and_cannot_be_changed() {
    let environment = Info::resolve(c::INFO_ENV).unwrap();
    let wdir = std::env::current_dir().unwrap();
    assert_eq!(environment.lookup("wdir").as_deref(), wdir.to_str());
    assert!(environment.lookup("command").is_some());
    assert!(environment.lookup("mpi_memory_alloc_kinds").is_some());
    assert_eq!(environment.lookup("maxprocs").as_deref(), Some("1"));
    // Only options of a launcher give them.
    for key in ["arch", "host", "soft"] {
        assert_eq!(environment.lookup(key), None, "{key}");
    }
    assert_eq!(code(Info::set(c::INFO_ENV, "command", "rm")), c::ERR_INFO);
    assert_eq!(code(Info::delete(c::INFO_ENV, "command")), c::ERR_INFO);
    assert_eq!(code(Info::free(c::INFO_ENV)), c::ERR_INFO);
    let given = Info::environment(["run", "-v", "file"].map(String::from).to_vec());
    assert_eq!(given.lookup("command").as_deref(), Some("run"));
    assert_eq!(given.lookup("argv").as_deref(), Some("-v file"));
}
