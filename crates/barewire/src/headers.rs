//! The headers of a request or a response, as the decisions of `barewire_proto::http` see them.

use barewire_proto::http::{Headers, header};
use http::{HeaderMap, HeaderName, HeaderValue};

/// These headers.
pub(crate) struct HeaderMapView<'a>(pub(crate) &'a HeaderMap);

impl Headers for HeaderMapView<'_> {
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        // What every request is asked for need not be read as a name first.
        let values = match KNOWN.iter().find(|known| known.as_str() == name) {
            Some(known) => self.0.get_all(known),
            None => self.0.get_all(name),
        };
        values.iter().map(HeaderValue::as_bytes)
    }
}

static KNOWN: [HeaderName; 8] = [
    http::header::HOST,
    http::header::ORIGIN,
    http::header::ACCEPT,
    http::header::CONTENT_TYPE,
    HeaderName::from_static(header::PROTOCOL_VERSION),
    HeaderName::from_static(header::METHOD),
    HeaderName::from_static(header::NAME),
    HeaderName::from_static(header::SESSION_ID),
];
