//! Frames, events and their relations -> the words that lists show.

mod caret;
mod direction;
mod event;
mod meaning;
mod relation;

pub use caret::CaretLine;
pub use direction::DirectionGuess;
pub use event::{event_parts, status};
pub use meaning::{Consequence, consequence, member_meaning, reply};
pub use relation::{MessageRelation, OperationFacts, Role, title};
