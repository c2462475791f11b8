//! The paths for load balancers and monitoring systems: `/healthz`, `/readyz` and the metrics -> their responses.

use std::fmt::Write as _;
use std::sync::Arc;

use barewire_proto::http::{Rejection, RejectionRule};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Response, StatusCode};

use super::HttpError;
use super::body::Body;
use super::endpoint::HttpEndpoint;
use super::metrics::{Gauges, Metrics, StoreMetrics};
use super::readiness::NotReady;
use super::response::{Refusal, refusal};

/// The settings of [`HttpBuilder`](super::HttpBuilder) for monitoring. By default there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct MonitoringSettings {
    pub(super) health: bool,
    pub(super) metrics_path: Option<String>,
    pub(super) store: Option<StoreMetrics>,
}

/// The paths that are served besides the endpoint.
#[derive(Debug)]
pub(super) struct Monitoring {
    has_health: bool,
    metrics: Option<(String, Arc<Metrics>)>,
}

/// A request to one of these paths.
#[derive(Debug, Clone, Copy)]
pub(super) enum MonitoringRequest<'m> {
    /// Whether the process serves. Not authenticated, and with any host.
    Live,
    /// Whether the server accepts new sessions. Not authenticated, and with any host.
    Ready,
    /// The metrics. Hosts, origins and tokens are checked as at the endpoint.
    Metrics(&'m Metrics),
}

impl Monitoring {
    pub(super) fn new(settings: MonitoringSettings) -> Result<Self, HttpError> {
        let MonitoringSettings { health, metrics_path, store } = settings;
        if let Some(path) = &metrics_path {
            // hyper has parsed the path of a request, so that it is compared as it is written.
            let is_path = path.starts_with('/')
                && path.parse::<http::uri::PathAndQuery>().is_ok_and(|parsed| parsed.path() == path);
            if !is_path || path == LIVE_PATH || path == READY_PATH {
                return Err(HttpError::MonitoringPath(path.clone()));
            }
        }
        Ok(Self { has_health: health, metrics: metrics_path.map(|path| (path, Metrics::new(store))) })
    }

    /// Returns the metrics, if the server has a path for them.
    pub(super) fn metrics(&self) -> Option<&Arc<Metrics>> {
        self.metrics.as_ref().map(|(_, metrics)| metrics)
    }

    /// Returns the request that this path stands for, or `None` if nothing is served there.
    pub(super) fn at(&self, path: &str) -> Option<MonitoringRequest<'_>> {
        match path {
            LIVE_PATH if self.has_health => Some(MonitoringRequest::Live),
            READY_PATH if self.has_health => Some(MonitoringRequest::Ready),
            _ => {
                let (metrics_path, metrics) = self.metrics.as_ref()?;
                (path == metrics_path).then_some(MonitoringRequest::Metrics(metrics))
            }
        }
    }
}

/// Returns the refusal of a method that only reads cannot have.
pub(super) fn check_method(method: &Method) -> Result<(), Refusal> {
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    let mut rejection = Rejection::new(RejectionRule::Method, "Method is not allowed at this path: use GET or HEAD");
    rejection.allow = Some("GET, HEAD");
    Err(refusal(rejection))
}

/// Returns the response to a request that has passed its checks.
pub(super) fn respond(request: MonitoringRequest<'_>, endpoint: &HttpEndpoint) -> Response<Body> {
    if let Some(node) = &endpoint.cluster {
        endpoint.readiness.set(NotReady::StoreAway, node.is_away());
    }
    match request {
        MonitoringRequest::Live => text_response(StatusCode::OK, PLAIN_TEXT, "ok\n".to_owned()),
        MonitoringRequest::Ready => {
            let mut reasons = String::new();
            for reason in endpoint.readiness.reasons() {
                writeln!(reasons, "{}", reason.text()).expect("a String takes all text");
            }
            if reasons.is_empty() {
                text_response(StatusCode::OK, PLAIN_TEXT, "ok\n".to_owned())
            } else {
                text_response(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT, reasons)
            }
        }
        MonitoringRequest::Metrics(metrics) => {
            let now = Gauges {
                is_ready: endpoint.readiness.reasons().next().is_none(),
                sessions: endpoint.senders.session_count(),
                exchanges: endpoint.senders.exchange_count(),
                senders: endpoint.senders.known_count(),
                body_bytes: endpoint.bodies.used(),
            };
            text_response(StatusCode::OK, OPEN_METRICS, metrics.text(&now))
        }
    }
}

fn text_response(status: StatusCode, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::whole(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // The answer is true only now.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The paths that Kubernetes has made usual.
const LIVE_PATH: &str = "/healthz";
const READY_PATH: &str = "/readyz";

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_for_metrics_is_one_that_a_request_can_have() {
        let new = |path: &str| {
            Monitoring::new(MonitoringSettings { health: true, metrics_path: Some(path.to_owned()), store: None })
        };
        for path in ["/metrics", "/internal/metrics", "/"] {
            assert!(matches!(new(path).expect("a path").at(path), Some(MonitoringRequest::Metrics(_))), "{path}");
        }
        for path in ["", "metrics", "http://localhost/metrics", "/a?b", "/a b", "/healthz", "/readyz"] {
            assert!(matches!(new(path), Err(HttpError::MonitoringPath(_))), "{path}");
        }
    }
}
