//! Implements the `Headers` trait of `barewire_proto::http` for `http::HeaderMap`.

use barewire_proto::http::{Headers, header};
use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};

/// A borrowed header map that implements [`Headers`].
pub(crate) struct HeaderMapView<'a>(pub(crate) &'a HeaderMap);

impl Headers for HeaderMapView<'_> {
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        // The headers that are read for every request are looked up by a prepared `HeaderName`, because looking up by a
        // `&str` parses the name first.
        let values = match COMMON_HEADERS.iter().find(|known| known.as_str() == name) {
            Some(known) => self.0.get_all(known),
            None => self.0.get_all(name),
        };
        values.iter().map(HeaderValue::as_bytes)
    }
}

/// Marks the headers that identify the sender of a request, so that `Debug` shows no values of them.
pub(crate) fn hide_secrets(headers: &mut HeaderMap) {
    for name in &SECRET_HEADERS {
        if let Entry::Occupied(mut values) = headers.entry(name) {
            values.iter_mut().for_each(|value| value.set_sensitive(true));
        }
    }
}

/// The names of the headers whose values are secrets, or were made with one.
static SECRET_HEADERS: [HeaderName; 4] = [
    http::header::AUTHORIZATION,
    http::header::PROXY_AUTHORIZATION,
    http::header::COOKIE,
    HeaderName::from_static("dpop"),
];

/// The names of the headers that are read for every request.
static COMMON_HEADERS: [HeaderName; 9] = [
    http::header::HOST,
    http::header::ORIGIN,
    http::header::ACCEPT,
    http::header::CONTENT_TYPE,
    http::header::AUTHORIZATION,
    HeaderName::from_static(header::PROTOCOL_VERSION),
    HeaderName::from_static(header::METHOD),
    HeaderName::from_static(header::NAME),
    HeaderName::from_static(header::SESSION_ID),
];
