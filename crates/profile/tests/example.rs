//! The JSON form of a profile, which programs of others read: `example.json` shows it.

use mica_profile::Profile;

#[test]
fn fields_of_later_versions_are_ignored() {
    let text = include_str!("example.json").replacen('{', "{\"x\":[],", 1);
    let read = Profile::parse(&text).expect("a profile");
    assert_eq!(read.ranks.len(), 4);
}
