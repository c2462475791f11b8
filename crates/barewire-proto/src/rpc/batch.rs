//! A batch: an array of messages. Each element is parsed separately, so an invalid element does not affect the others.

use super::invalid::Rule;
use super::parse::{Parsed, element};
use super::{Invalid, Message, Shape};
use crate::json::{Place, Scanner, SyntaxError};

/// A batch: a JSON array that is not empty. Its elements can be any JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'a> {
    frame: &'a [u8],
    len: usize,
    max_depth: usize,
}

impl<'a> Batch<'a> {
    /// Scans the array to check its syntax. [`Self::elements`] scans it again to parse the elements.
    pub(super) fn scan(
        frame: &'a [u8],
        scanner: &mut Scanner<'a>,
        max_depth: usize,
    ) -> Result<Parsed<'a>, SyntaxError> {
        let start = scanner.at();
        let mut len = 0;
        scanner.enter();
        let mut place = Place::First;
        while scanner.element(place)? {
            scanner.value()?;
            place = Place::Next;
            len += 1;
        }
        Ok(match len {
            0 => Parsed::Invalid(Invalid::shapeless(Rule::EmptyBatch, start)),
            _ => Parsed::Batch(Self { frame, len, max_depth }),
        })
    }

    /// Creates the batch of a frame that [`Self::scan`] has accepted before.
    pub(super) fn scanned(frame: &'a [u8], len: usize, max_depth: usize) -> Self {
        Self { frame, len, max_depth }
    }

    /// Returns the maximum nesting depth with which the batch was scanned.
    pub(super) fn max_depth(self) -> usize {
        self.max_depth
    }

    /// Returns the number of elements, which is at least one.
    #[allow(clippy::len_without_is_empty, reason = "a Batch is never empty")]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns an iterator that parses the elements, in order.
    pub fn elements(self) -> BatchElements<'a> {
        let mut scanner = Scanner::new(self.frame, self.max_depth);
        scanner.peek();
        scanner.enter();
        BatchElements { batch: self, scanner, place: Place::First }
    }

    /// Returns the text of each element, in order.
    pub fn texts(self) -> impl Iterator<Item = &'a [u8]> {
        let BatchElements { mut scanner, mut place, .. } = self.elements();
        std::iter::from_fn(move || {
            if !scanner.is_inside() || !scanner.element(place).ok()? {
                return None;
            }
            place = Place::Next;
            let value = scanner.value().ok()?;
            Some(&self.frame[value.start..value.end])
        })
    }

    /// Returns the refusal of this batch if it has more than `limit` elements. One refusal covers the whole batch,
    /// because the responses to all elements would be as large as the batch.
    pub fn over(self, limit: usize) -> Option<Invalid<'a>> {
        (self.len > limit).then(|| Invalid::shapeless(Rule::BatchTooLong { limit }, self.start()))
    }

    fn start(self) -> usize {
        self.frame.iter().position(|b| *b == b'[').unwrap_or_default()
    }

    /// Returns the refusals of a batch where batches are not allowed: one for each element that has an id and must be
    /// answered, or a single refusal without an id if there is no such element.
    pub fn refusals(self) -> impl Iterator<Item = Invalid<'a>> {
        let refuse = move |id, method| {
            let shape = Shape::Request;
            Invalid { rule: Rule::BatchNotAllowed, at: self.start(), id, method, shape }
        };
        let answered_with_id = |element| match element {
            Ok(Message::Request(request)) => Some((request.id, Some(request.method))),
            Err(Invalid { id: Some(id), method, shape: Shape::Request, .. }) => Some((id, method)),
            _ => None,
        };
        let mut refused =
            self.elements().filter_map(answered_with_id).map(move |(id, method)| refuse(Some(id), method));
        let first = refused.next().unwrap_or_else(|| refuse(None, None));
        std::iter::once(first).chain(refused)
    }
}

/// An iterator over the elements of a batch. See [`Batch::elements`].
#[derive(Debug)]
pub struct BatchElements<'a> {
    batch: Batch<'a>,
    scanner: Scanner<'a>,
    place: Place,
}

impl<'a> Iterator for BatchElements<'a> {
    type Item = Result<Message<'a>, Invalid<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // After the scanner has left the array, no element follows.
        if !self.scanner.is_inside() || !self.scanner.element(self.place).ok()? {
            return None;
        }
        self.place = Place::Next;
        Some(element(self.batch.frame, &mut self.scanner, self.batch.max_depth))
    }
}
