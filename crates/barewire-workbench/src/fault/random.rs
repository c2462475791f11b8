//! A pseudorandom number generator, SplitMix64, which returns the same numbers for the same seed.

use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    /// Creates a generator. Generators with the same seed and different `part`s are independent.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        let mut chance = Self(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        chance.next();
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number in the range, which must not be empty.
    pub(crate) fn within(&mut self, range: Range<usize>) -> usize {
        let width = (range.end - range.start) as u64;
        range.start + usize::try_from(self.next() % width).expect("less than the width, a usize")
    }

    /// Returns `true` with a probability of `percent` in a hundred.
    pub(crate) fn percent(&mut self, percent: u8) -> bool {
        self.next() % 100 < u64::from(percent)
    }
}
