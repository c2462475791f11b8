//! The stack of open braces and brackets, one bit per level.

/// A stack with one bit per level: whether the level is an object or an array. A million levels take 128 KiB, and up to
/// 64 levels allocate nothing.
#[derive(Default)]
pub(super) struct Nesting {
    pub(super) depth: usize,
    /// The innermost levels, at most 64. The lowest bit is the innermost level.
    window: u64,
    /// The levels outside the window, 64 per entry.
    outer: Vec<u64>,
}

impl Nesting {
    #[inline]
    pub(super) fn push(&mut self, object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.window);
        }
        self.window = (self.window << 1) | u64::from(object);
        self.depth += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.depth -= 1;
        self.window >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.window = self.outer.pop().expect("push added one entry per 64 levels");
        }
    }

    #[inline]
    pub(super) fn in_object(&self) -> bool {
        self.window & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_remembers_the_kind_of_every_level() {
        let object = |level: usize| level.is_multiple_of(3) || level % 7 == 2;
        let mut nesting = Nesting::default();
        for level in 0..1000 {
            nesting.push(object(level));
        }
        for level in (0..1000).rev() {
            assert_eq!(nesting.in_object(), object(level), "level {level}");
            nesting.pop();
        }
        assert_eq!(nesting.depth, 0);
    }
}
