//! The URL of a metadata document -> what is found there, as evidence.

use barewire::client::http::{Dialer, MetadataError, MetadataResponse};
use barewire_proto::http::Media;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::check::excerpt::Excerpt;
use crate::check::finding::{Finding, Location};
use crate::check::live::harness::Harness;

/// A URL at which a metadata document may be, and what was found there.
pub(super) struct MetadataPlace {
    pub(super) url: String,
    pub(super) found: Result<MetadataResponse, MetadataError>,
}

impl MetadataPlace {
    /// Fetches the document at a URL, within the time limit for a response.
    pub(super) async fn fetch(harness: &Harness, dialer: &Dialer, url: &str) -> Self {
        let late = MetadataError::Failed("there was no response in time".to_owned());
        let found = timeout_at(harness.response_deadline().into(), dialer.metadata(url)).await;
        Self { url: url.to_owned(), found: found.unwrap_or(Err(late)) }
    }

    /// Fetches the documents at several URLs at once, so that a server that does not answer costs the time limit once.
    pub(super) async fn fetch_all(harness: &Harness, dialer: &Dialer, urls: Vec<String>) -> Vec<Self> {
        let deadline = harness.response_deadline();
        let mut fetches = JoinSet::new();
        for (number, url) in urls.into_iter().enumerate() {
            let dialer = dialer.clone();
            fetches.spawn(async move {
                let late = MetadataError::Failed("there was no response in time".to_owned());
                let found = timeout_at(deadline.into(), dialer.metadata(&url)).await;
                (number, Self { url, found: found.unwrap_or(Err(late)) })
            });
        }
        let mut places = fetches.join_all().await;
        places.sort_by_key(|(number, _)| *number);
        places.into_iter().map(|(_, place)| place).collect()
    }

    /// Returns the body, if the status is 200.
    pub(super) fn body(&self) -> Option<&[u8]> {
        self.found.as_ref().ok().filter(|response| response.status == 200).map(|response| response.body.as_slice())
    }

    /// Whether the response says that it is JSON.
    pub(super) fn is_json(&self) -> bool {
        let content_type = self.found.as_ref().ok().and_then(|response| response.content_type.as_deref());
        content_type.is_some_and(|value| Media::parse(value.as_bytes()) == Some(Media::Json))
    }

    /// Describes what was found in a few words, to be used after the word "got".
    pub(super) fn describe(&self) -> String {
        match &self.found {
            Ok(response) if response.status == 200 => {
                let content_type = response.content_type.as_deref().unwrap_or("no Content-Type");
                format!("a document that is not metadata ({content_type})")
            }
            Ok(response) => format!("status {}", response.status),
            Err(why) => format!("no response: {why}"),
        }
    }

    /// Adds the request and the response to a finding.
    pub(super) fn evidence(&self, finding: Finding) -> Finding {
        let request = format!("GET {}", self.url);
        let lines = |lines: &[&[u8]]| Excerpt::of_lines(Location::default(), lines.iter().copied());
        let response = self.found.as_ref().ok().map(|response| {
            let status = format!("HTTP {}", response.status);
            let body = &response.body[..response.body.len().min(MAX_BODY_SHOWN)];
            lines(&[status.as_bytes(), body])
        });
        finding.with_request(Some(lines(&[request.as_bytes()]))).with_response(response)
    }
}

/// The maximum length of the part of a document that a finding shows.
const MAX_BODY_SHOWN: usize = 4096;
