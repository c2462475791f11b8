//! Properties of `barewire-workbench` that hold for any bytes: one file per fuzz target, whose `check` panics if its
//! property does not hold. cargo-fuzz and the property tests call it, the tests also with `testdata/corpus`.

pub mod http_framing;
pub mod imports;
pub mod operations;
pub mod redactor;

/// The name of a fuzz target and of its corpus, and the function that checks its property.
pub type Check = (&'static str, fn(&[u8]));

/// All checks.
pub const ALL: [Check; 4] = [
    ("redactor", redactor::check),
    ("http_framing", http_framing::check),
    ("operations", operations::check),
    ("imports", imports::check),
];

/// Splits the fuzzer's input: the first byte chooses options, the second chooses the cuts, and the rest is the stream.
fn setup(data: &[u8]) -> Option<(u8, u8, &[u8])> {
    match data {
        [options, cuts, stream @ ..] => Some((*options, *cuts, stream)),
        _ => None,
    }
}

/// Splits the stream in four ways: not at all, into single bytes, into pieces of equal length, and into two pieces.
fn splits(stream: &[u8], cuts: u8) -> [Vec<&[u8]>; 4] {
    let (first, second) = stream.split_at(usize::from(cuts) * stream.len() / 256);
    [vec![stream], stream.chunks(1).collect(), stream.chunks(usize::from(cuts % 13) + 2).collect(), vec![first, second]]
}
