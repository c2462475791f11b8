//! A request that nothing in the capture answers -> what is said of it, on stderr and to the client.

use barewire_proto::rpc::{Code, ErrorObject};
use serde::Serialize;

use crate::replay::diff::Change;
use crate::replay::path::pointer;
use crate::text::shown;

/// Why nothing in the capture answers a request.
pub(super) enum Miss {
    /// It has no such request.
    Method,
    /// It has some with other params; this one is the nearest.
    Params { frame: u64, changes: Vec<Change> },
    /// It has answered all of them.
    Again { frame: u64 },
    /// Another is the next.
    Order { frame: u64, wanted: String },
    /// There is no next.
    Over,
}

impl Miss {
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Method => "nothing in the capture has this method".into(),
            Self::Params { frame, changes } => {
                let places: Vec<String> =
                    changes.iter().take(MAX_LISTED_PLACES).map(|change| pointer(&change.path)).collect();
                let places = shown(places.join(", ").as_bytes(), 200);
                format!("nothing in the capture matches; frame {frame} is the nearest and differs at {places}")
            }
            Self::Again { frame } => format!("asked more often than in the capture, last in frame {frame}"),
            Self::Order { frame, wanted } => {
                format!("out of order: the next in the capture is {} in frame {frame}", shown(wanted.as_bytes(), 60))
            }
            Self::Over => "out of order: the capture has no more requests".into(),
        }
    }

    pub(super) fn error(&self) -> ErrorObject {
        let nearest = match self {
            Self::Params { frame, changes } => {
                Some(Nearest { frame: *frame, differs: &changes[..changes.len().min(MAX_LISTED_PLACES)] })
            }
            _ => None,
        };
        let data = Data { reason: self.sentence(), nearest };
        let code = if matches!(self, Self::Method) { Code::METHOD_NOT_FOUND } else { Code::INTERNAL_ERROR };
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
