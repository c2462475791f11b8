//! Finds the known name that a misspelled name most likely stands for.

/// Returns the name that is most similar to `wanted`, if it is similar enough.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    if wanted.len() > MAX_COMPARED_NAME {
        return None;
    }
    let near =
        names.filter(|name| name.len() <= MAX_COMPARED_NAME).map(|name| (distance(&wanted, name), name)).min()?;
    (near.0 <= 2.max(wanted.len() / 3)).then_some(near.1)
}

/// Returns the number of letters that must be added, removed or changed to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The maximum length of names that are compared, in bytes. Peers can send longer names, which are slow to compare.
const MAX_COMPARED_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_a_similar_name_is_returned() {
        let names = ["echo", "add", "readFile"];
        let near = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(near("ehco"), Some("echo"));
        assert_eq!(near("read_file"), Some("readFile"));
        assert_eq!(near("something else"), None);
        assert_eq!(near(&"a".repeat(100)), None);
    }
}
