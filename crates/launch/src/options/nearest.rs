//! Suggestions for names with typing errors.

/// The option whose name is closest to one that does not exist, if any of `names` is close
/// enough.
pub(super) fn nearest(
    names: impl Iterator<Item = &'static str>,
    bare: &str,
) -> Option<&'static str> {
    let distance_to = |name: &&str| distance(name.trim_start_matches('-'), bare);
    let near = names.min_by_key(distance_to)?;
    // One or two wrong letters in a long name are a typing error; in a short one they make another
    // name.
    let allowed = (bare.chars().count() / 4).min(2);
    (distance_to(&near) <= allowed).then_some(near)
}

/// The edit distance: letters to insert, delete or replace to get from one name to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
