//! Places at which a document may be -> one fetch after the other, until one has it.

use std::collections::VecDeque;

use super::endpoint_error::shortened;
use super::network::NetworkRefusal;
use super::stop::{PlaceFound, TriedPlace};
use super::url::{BadUrl, Url};
use crate::safe_text::SafeText;

/// A search for a metadata document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Search {
    places: VecDeque<Url>,
    /// The place that is being fetched.
    current: Option<Url>,
    tried: Vec<TriedPlace>,
}

impl Search {
    pub(super) fn new(places: Vec<Url>) -> Self {
        Self { places: places.into(), ..Self::default() }
    }

    /// Adds a place that cannot be fetched.
    pub(super) fn add_bad(&mut self, url: &str, why: BadUrl) {
        self.tried.push(TriedPlace { url: url.to_owned(), found: PlaceFound::BadUrl(why) });
    }

    /// Returns the next place that may be fetched, if there is one.
    pub(super) fn next(&mut self, check: impl Fn(&Url) -> Result<(), NetworkRefusal>) -> Option<Url> {
        while let Some(place) = self.places.pop_front() {
            match check(&place) {
                Ok(()) => {
                    self.current = Some(place.clone());
                    return Some(place);
                }
                Err(why) => {
                    let (url, found) = (place.to_string(), PlaceFound::Refused(why));
                    self.tried.push(TriedPlace { url, found });
                }
            }
        }
        self.current = None;
        None
    }

    /// Records what was at the current place.
    pub(super) fn miss(&mut self, found: PlaceFound) {
        if let Some(url) = self.current.take() {
            self.tried.push(TriedPlace { url: url.to_string(), found });
        }
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.miss(PlaceFound::Failed(shortened(why)));
    }

    pub(super) fn current(&self) -> Option<&Url> {
        self.current.as_ref()
    }

    /// Returns the issuer of the first document that was about another one.
    pub(super) fn other_issuer(&self) -> Option<&SafeText> {
        self.tried.iter().find_map(|place| match &place.found {
            PlaceFound::OtherIssuer(issuer) => Some(issuer),
            _ => None,
        })
    }

    /// Whether one of the places could have a document another time.
    pub(super) fn is_unsure(&self) -> bool {
        self.tried.iter().any(TriedPlace::is_unsure)
    }

    pub(super) fn into_tried(self) -> Vec<TriedPlace> {
        self.tried
    }
}
