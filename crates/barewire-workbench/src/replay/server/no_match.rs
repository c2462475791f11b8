//! The reason why the capture has no answer to a request, for the log and for the client.

use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;

use crate::replay::diff::Change;
use crate::text::shown;

/// The reason why the capture has no answer to a request.
pub(super) enum NoMatch {
    /// No recorded request has this method.
    UnknownMethod,
    /// The recorded requests with this method have other params. `frame` contains the most similar one.
    OtherParams { frame: u64, changes: Vec<Change> },
    /// With `strict`: every recorded response was already used.
    UsedUp { frame: u64 },
    /// With `in_order`: another request is the next one in the capture.
    OutOfOrder { frame: u64, wanted: String },
    /// With `in_order`: the capture has no more requests.
    NoMoreRequests,
    /// Too many requests of the client are not finished yet.
    Busy,
}

impl NoMatch {
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::UnknownMethod => "no request of the capture has this method".into(),
            Self::OtherParams { frame, changes } => {
                let places: Vec<String> = changes.iter().take(MAX_LISTED_PLACES).map(Change::pointer).collect();
                let places = shown(places.join(", ").as_bytes(), 200);
                format!("no request of the capture matches; frame {frame} is the nearest and differs at {places}")
            }
            Self::UsedUp { frame } => format!("sent more often than in the capture, where frame {frame} is the last"),
            Self::OutOfOrder { frame, wanted } => {
                let wanted = shown(wanted.as_bytes(), 60);
                format!("out of order: the next request of the capture is {wanted} in frame {frame}")
            }
            Self::NoMoreRequests => "out of order: the capture has no more requests".into(),
            Self::Busy => "too many requests are in progress or wait for an answer of the client".into(),
        }
    }

    pub(super) fn error(&self) -> ErrorObject {
        let nearest = match self {
            Self::OtherParams { frame, changes } => {
                Some(Nearest { frame: *frame, differs: &changes[..changes.len().min(MAX_LISTED_PLACES)] })
            }
            _ => None,
        };
        let code = if matches!(self, Self::UnknownMethod) { Code::METHOD_NOT_FOUND } else { Code::INTERNAL_ERROR };
        ErrorObject::standard(code).with_data(&ErrorData { reason: self.sentence(), nearest })
    }
}

#[derive(Serialize)]
struct ErrorData<'a> {
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Nearest<'a>>,
}

/// The recorded request with the fewest differences from the received one.
#[derive(Serialize)]
struct Nearest<'a> {
    frame: u64,
    differs: &'a [Change],
}

const MAX_LISTED_PLACES: usize = 5;
