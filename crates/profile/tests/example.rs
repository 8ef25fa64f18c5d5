//! The JSON form of a profile, which programs of others read: `example.json` shows it.

use mica_profile::Profile;

#[test]
fn fields_of_later_versions_are_ignored() {
    let text =
        include_str!("example.json").replacen("\"format\": 1", "\"format\": 1, \"x\": []", 1);
    let read: Profile = serde_json::from_str(&text).expect("a profile");
    assert_eq!(read.ranks.len(), 4);
}
