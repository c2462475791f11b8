//! Runs the official Rust SDK's client through every case: client REVISION|auto COMMAND...|URL

mod cases;
mod report;

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cases::Session;
use report::{CaseOutcome, Report, debug_text};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// The notifications and elicitations that the client received, and its answer to elicitations.
#[derive(Clone)]
struct Handler {
    revision: ProtocolVersion,
    answer: Arc<Mutex<ElicitResult>>,
    elicitations: Arc<Mutex<Vec<Value>>>,
    progress: Arc<Mutex<Vec<f64>>>,
    updated: Arc<Mutex<Vec<String>>>,
    tool_list_changes: Arc<Mutex<usize>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1.0.0"))
            .with_protocol_version(self.revision.clone())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request {
            locked(&self.elicitations).push(serde_json::to_value(requested_schema).expect("a schema is JSON"));
        }
        Ok(locked(&self.answer).clone())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        locked(&self.progress).push(params.progress);
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        locked(&self.updated).push(params.uri);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        *locked(&self.tool_list_changes) += 1;
    }
}

// On one thread: the SDK handles each notification in a task of its own, and on several threads these tasks have no order,
// so that progress can arrive in another order than on the wire.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wanted, program, rest @ ..] = &arguments[..] else {
        eprintln!("client REVISION|auto COMMAND...|URL");
        return ExitCode::from(2);
    };
    let environment = |name| std::env::var(name).ok();
    let modern = || vec![ProtocolVersion::V_2026_07_28];
    let revision = |text: &str| serde_json::from_value::<ProtocolVersion>(json!(text)).expect("a revision");
    // With a server of one era, `auto` ends up in that era; EXPECT names the revision.
    let (mode, expected) = match &**wanted {
        "auto" => {
            let mode = ClientLifecycleMode::Auto { preferred_versions: modern(), legacy_version: None };
            (mode, environment("EXPECT").map_or(ProtocolVersion::V_2026_07_28, |text| revision(&text)))
        }
        "2026-07-28" => (ClientLifecycleMode::Discover { preferred_versions: modern() }, ProtocolVersion::V_2026_07_28),
        other => (ClientLifecycleMode::Initialize, revision(other)),
    };
    let mut report = Report {
        label: format!("rmcp {wanted}"),
        known: environment("EXCEPT").unwrap_or_default().split(';').map(str::to_owned).collect(),
        only: environment("ONLY").map(|only| only.split(';').map(str::to_owned).collect()),
        failed: false,
    };
    let handler = Handler {
        revision: expected.clone(),
        answer: Arc::new(Mutex::new(ElicitResult::new(ElicitationAction::Cancel))),
        elicitations: Arc::default(),
        progress: Arc::default(),
        updated: Arc::default(),
        tool_list_changes: Arc::default(),
    };
    let opened = timeout(Duration::from_secs(15), async {
        if program.starts_with("http://") {
            let transport = StreamableHttpClientTransport::from_uri(program.clone());
            handler.clone().serve_with_lifecycle(transport, mode).await
        } else {
            let mut command = Command::new(program);
            command.args(rest);
            let transport = TokioChildProcess::new(command).expect("the server starts");
            handler.clone().serve_with_lifecycle(transport, mode).await
        }
    });
    let client = match opened.await {
        Ok(Ok(client)) => client,
        Ok(Err(why)) => {
            println!("FAIL {}: open: {why}", report.label);
            return ExitCode::FAILURE;
        }
        Err(_) => {
            println!("FAIL {}: open: no result within 15 s", report.label);
            return ExitCode::FAILURE;
        }
    };
    let s = Session { client, handler, expected };
    report.case("connect", s.connect()).await;
    report.case("ping", s.ping()).await;
    report.case("tools/list", s.list_tools()).await;
    report.case("echo", s.echo()).await;
    report.case("add", s.add()).await;
    report.case("a tool that fails", s.fail()).await;
    report.case("an image", s.image()).await;
    report.case("an unknown tool", s.unknown_tool()).await;
    report.case("bad arguments", s.bad_arguments()).await;
    report.case("progress", s.progress()).await;
    report.case("cancellation", s.cancellation()).await;
    report.case("elicitation, accepted", s.elicitation(ElicitationAction::Accept)).await;
    report.case("elicitation, declined", s.elicitation(ElicitationAction::Decline)).await;
    report.case("elicitation, cancelled", s.elicitation(ElicitationAction::Cancel)).await;
    report.case("elicitation, before there was one", s.elicitation_in_older_revisions()).await;
    report.case("resources/list", s.list_resources()).await;
    report.case("resources/templates/list", s.list_templates()).await;
    report.case("resources/read", s.read()).await;
    report.case("an unknown resource", s.unknown_resource()).await;
    report.case("a ticking resource", s.ticking()).await;
    report.case("list_changed", s.list_changed()).await;
    report.case("mirrored arguments", s.mirrored()).await;
    report.case("prompts/list", s.list_prompts()).await;
    report.case("prompts/get", s.get_prompt()).await;
    report.case("an unknown prompt", s.unknown_prompt()).await;
    report.case("completion", s.completion()).await;
    let close = async { s.client.cancel().await.map(|_| CaseOutcome::Passed).map_err(debug_text) };
    report.case("close", close).await;
    if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

pub(crate) fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().expect("no thread panics while holding the lock")
}
