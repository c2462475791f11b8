//! A name with a slip of the finger in it -> the name that was meant.

/// The name that differs in the fewest letters, if it is few.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    if wanted.len() > LONGEST {
        return None;
    }
    let near = names.filter(|name| name.len() <= LONGEST).map(|name| (distance(&wanted, name), name)).min()?;
    (near.0 <= 2.max(wanted.len() / 3)).then_some(near.1)
}

/// How many letters must be added, removed or changed to turn one word into the other.
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

/// Names that are longer are not compared: a peer decides how long its names are.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_what_is_near_is_meant() {
        let names = ["echo", "add", "readFile"];
        let near = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(near("ehco"), Some("echo"));
        assert_eq!(near("read_file"), Some("readFile"));
        assert_eq!(near("something else"), None);
        assert_eq!(near(&"a".repeat(100)), None);
    }
}
