//! Checks that must pass for any bytes in `barewire-workbench`: one file for each fuzz target, run by cargo-fuzz, by the property
//! tests and over the corpus in `testdata/corpus`. Each check panics if it fails.

pub mod http_framing;
pub mod operations;
pub mod redactor;

/// A check, and the name that its fuzz target and its corpus have.
pub type Check = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Check; 3] =
    [("redactor", redactor::check), ("http_framing", http_framing::check), ("operations", operations::check)];

/// The first two bytes choose options and where to cut, the rest is the stream.
fn setup(data: &[u8]) -> Option<(u8, u8, &[u8])> {
    match data {
        [options, cuts, stream @ ..] => Some((*options, *cuts, stream)),
        _ => None,
    }
}

/// The same bytes in pieces: whole, byte by byte, in pieces of one length, and in two.
fn splits(stream: &[u8], cuts: u8) -> [Vec<&[u8]>; 4] {
    let (first, second) = stream.split_at(usize::from(cuts) * stream.len() / 256);
    [vec![stream], stream.chunks(1).collect(), stream.chunks(usize::from(cuts % 13) + 2).collect(), vec![first, second]]
}
