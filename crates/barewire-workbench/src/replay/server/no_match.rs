//! A request that nothing in the capture answers -> what is said of it, on stderr and to the client.

use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;

use crate::replay::diff::Change;
use crate::replay::path_pattern::pointer;
use crate::text::shown;

/// Why nothing in the capture answers a request.
pub(super) enum NoMatch {
    /// It has no such request.
    UnknownMethod,
    /// It has some with other params; this one is the nearest.
    OtherParams { frame: u64, changes: Vec<Change> },
    /// It has answered all of them.
    UsedUp { frame: u64 },
    /// Another is the next.
    OutOfOrder { frame: u64, wanted: String },
    /// There is no next.
    NoMoreRequests,
}

impl NoMatch {
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::UnknownMethod => "nothing in the capture has this method".into(),
            Self::OtherParams { frame, changes } => {
                let places: Vec<String> =
                    changes.iter().take(MAX_LISTED_PLACES).map(|change| pointer(&change.path)).collect();
                let places = shown(places.join(", ").as_bytes(), 200);
                format!("nothing in the capture matches; frame {frame} is the nearest and differs at {places}")
            }
            Self::UsedUp { frame } => format!("asked more often than in the capture, last in frame {frame}"),
            Self::OutOfOrder { frame, wanted } => {
                format!("out of order: the next in the capture is {} in frame {frame}", shown(wanted.as_bytes(), 60))
            }
            Self::NoMoreRequests => "out of order: the capture has no more requests".into(),
        }
    }

    pub(super) fn error(&self) -> ErrorObject {
        let nearest = match self {
            Self::OtherParams { frame, changes } => {
                Some(Nearest { frame: *frame, differs: &changes[..changes.len().min(MAX_LISTED_PLACES)] })
            }
            _ => None,
        };
        let data = Data { reason: self.sentence(), nearest };
        let code = if matches!(self, Self::UnknownMethod) { Code::METHOD_NOT_FOUND } else { Code::INTERNAL_ERROR };
        ErrorObject::standard(code).with_data(&data)
    }
}

/// What the client is told besides.
#[derive(Serialize)]
struct Data<'a> {
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<Nearest<'a>>,
}

#[derive(Serialize)]
struct Nearest<'a> {
    frame: u64,
    differs: &'a [Change],
}

/// Places that are listed.
const MAX_LISTED_PLACES: usize = 5;
