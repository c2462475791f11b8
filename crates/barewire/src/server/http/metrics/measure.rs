//! One request from its head to the end of its response -> its era, its outcome and its duration in [`Metrics`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use barewire_proto::mcp::Era;
use barewire_proto::rpc::Code;

use super::Metrics;
use crate::peer::MessageKind;

/// The way in which a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Outcome {
    /// A request got its result. The result of a tool that failed is a result.
    Answered,
    /// A notification, a response or a DELETE was accepted, or a stream was opened that answers no request.
    Accepted,
    /// The request was wrong or not allowed: it was refused by its status, or by an error that says so.
    Refused,
    /// A request got an error that its sender has not caused.
    Failed,
    /// The server had no room for the request, or was shutting down: 503.
    Unavailable,
    /// The client disconnected before the end of the response.
    Abandoned,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] =
        [Self::Answered, Self::Accepted, Self::Refused, Self::Failed, Self::Unavailable, Self::Abandoned];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unavailable => "unavailable",
            Self::Abandoned => "abandoned",
        }
    }

    /// Returns the outcome of a request with this response.
    pub(in super::super) fn of_answer(sent: MessageKind) -> Self {
        match sent {
            MessageKind::Answer(code) => Self::of_code(code),
            _ => Self::Refused,
        }
    }

    /// Returns the outcome of a request that got a result (`None`) or an error with this code.
    pub(in super::super) fn of_code(code: Option<Code>) -> Self {
        match code {
            None => Self::Answered,
            Some(Code::INTERNAL_ERROR) => Self::Failed,
            // JSON-RPC and MCP reserve this range; all other codes in it say what is wrong with the request. The codes
            // of an application are outside.
            Some(code) if (-32768..=-32000).contains(&code.get()) => Self::Refused,
            Some(_) => Self::Failed,
        }
    }
}

/// Counts a request when it is dropped: as abandoned, unless its outcome is known by then.
///
/// It does nothing, and does not read the clock, if the server has no metrics.
#[derive(Debug)]
pub(in super::super) struct RequestMeasure(Option<RunningRequest>);

#[derive(Debug)]
struct RunningRequest {
    metrics: Arc<Metrics>,
    start: Instant,
    era: Option<Era>,
    outcome: Outcome,
}

impl RequestMeasure {
    #[inline]
    pub(in super::super) fn begin(metrics: Option<&Arc<Metrics>>) -> Self {
        Self(metrics.map(|metrics| RunningRequest {
            metrics: Arc::clone(metrics),
            start: Instant::now(),
            era: None,
            outcome: Outcome::Abandoned,
        }))
    }

    /// Whether the server has metrics.
    #[inline]
    pub(in super::super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(in super::super) fn set_era(&mut self, era: Era) {
        if let Some(running) = &mut self.0 {
            running.era = Some(era);
        }
    }

    #[inline]
    pub(in super::super) fn set_outcome(&mut self, outcome: Outcome) {
        if let Some(running) = &mut self.0 {
            running.outcome = outcome;
        }
    }

    /// Counts the stream of the response as open until the returned value is dropped. If the outcome of the request is
    /// known already, because the stream answers no request, the request is counted now.
    pub(in super::super) fn into_stream(mut self) -> Option<StreamMeasure> {
        let running = self.0.take()?;
        let (metrics, era) = (Arc::clone(&running.metrics), running.era?);
        metrics.of(era).streams.fetch_add(1, Relaxed);
        let request = Self(Some(running).filter(|running| running.outcome == Outcome::Abandoned));
        Some(StreamMeasure { metrics, era, request })
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let has_duration = matches!(self.outcome, Outcome::Answered | Outcome::Failed);
        self.metrics.count(self.era, self.outcome, has_duration.then(|| self.start.elapsed()));
    }
}

/// Makes a stream count as open, and its request as running.
#[derive(Debug)]
pub(in super::super) struct StreamMeasure {
    metrics: Arc<Metrics>,
    era: Era,
    request: RequestMeasure,
}

impl StreamMeasure {
    /// Notes that the stream has ended by itself. `answer` is the response that it contained; a stream without one is
    /// resumed by its client later.
    pub(in super::super) fn end(&mut self, answer: Option<MessageKind>) {
        self.request.set_outcome(answer.map_or(Outcome::Accepted, Outcome::of_answer));
    }
}

impl Drop for StreamMeasure {
    fn drop(&mut self) {
        self.metrics.of(self.era).streams.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_fault_of_the_request_or_of_the_server() {
        for (code, outcome) in [
            (None, Outcome::Answered),
            (Some(-32700), Outcome::Refused),
            (Some(-32601), Outcome::Refused),
            (Some(-32602), Outcome::Refused),
            (Some(-32002), Outcome::Refused),
            (Some(-32603), Outcome::Failed),
            (Some(1), Outcome::Failed),
            (Some(-32800), Outcome::Failed),
        ] {
            assert_eq!(Outcome::of_code(code.map(Code::received)), outcome, "{code:?}");
        }
        assert_eq!(Outcome::of_answer(MessageKind::AnswerWithoutId), Outcome::Refused);
    }

    #[test]
    fn a_request_is_counted_once_with_what_is_known_when_it_ends() {
        let metrics = Metrics::new(None);
        let count = |era: Era, outcome: Outcome| metrics.of(era).requests.0[outcome as usize].load(Relaxed);
        let begin = |era| {
            let mut measure = RequestMeasure::begin(Some(&metrics));
            measure.set_era(era);
            measure
        };
        drop(begin(Era::Modern));
        assert_eq!(count(Era::Modern, Outcome::Abandoned), 1);
        begin(Era::Legacy).set_outcome(Outcome::Answered);
        assert_eq!(count(Era::Legacy, Outcome::Answered), 1);
        // A stream whose client leaves.
        let stream = begin(Era::Modern).into_stream().expect("it is measured");
        assert_eq!((metrics.modern.streams.load(Relaxed), count(Era::Modern, Outcome::Abandoned)), (1, 1));
        drop(stream);
        assert_eq!((metrics.modern.streams.load(Relaxed), count(Era::Modern, Outcome::Abandoned)), (0, 2));
        // A stream with the response.
        begin(Era::Modern).into_stream().expect("it is measured").end(Some(MessageKind::Answer(None)));
        assert_eq!((metrics.modern.streams.load(Relaxed), count(Era::Modern, Outcome::Answered)), (0, 1));
        // A stream that answers no request is counted when it begins.
        let mut request = begin(Era::Legacy);
        request.set_outcome(Outcome::Accepted);
        let stream = request.into_stream().expect("it is measured");
        assert_eq!((metrics.legacy.streams.load(Relaxed), count(Era::Legacy, Outcome::Accepted)), (1, 1));
        drop(stream);
        let all: u64 = metrics.legacy.requests.0.iter().map(|count| count.load(Relaxed)).sum();
        assert_eq!((metrics.legacy.streams.load(Relaxed), all), (0, 2));
        assert!(RequestMeasure::begin(None).into_stream().is_none());
    }
}
