//! The call of a tool that may run again: a request -> what the store of a cluster keeps of it -> its handler, on another
//! node.

use std::sync::Arc;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{ClientCapabilities, Implementation, RequestParams, Revision, modern};
use barewire_proto::rpc::Params;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tracing::Instrument;

use super::record::TaskRecord;
use super::run::{TOOLS_CALL, TaskRun, run};
use crate::Failure;
use crate::peer::Context;
use crate::server::ServerShared;
use crate::server::connection::{ClientEra, IncomingRequest};
use crate::server::http::{HttpCaller, StoredPrincipal};
use crate::server::layer::{InvocationTarget, start_layered};
use crate::server::legacy_client::LegacyClient;

/// A call of a tool, without the connection that it came from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::server) struct StoredCall {
    revision: Revision,
    /// The members of the params that the handler depends on, as the client wrote them.
    params: Box<RawValue>,
    /// The client of a legacy session. A modern client describes itself in the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<StoredClient>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<StoredPrincipal>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredClient {
    info: Option<Implementation>,
    capabilities: ClientCapabilities,
}

impl StoredCall {
    pub(super) fn of(request: &IncomingRequest<'_>) -> Result<Self, Failure> {
        let members = &request.params;
        let written = [
            ("name", members.name),
            ("arguments", members.arguments),
            ("inputResponses", members.input_responses),
            ("requestState", members.request_state),
            ("_meta", members.meta.json),
        ];
        let written = written.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?.as_str())));
        let params = format!("{{{}}}", written.collect::<Vec<_>>().join(","));
        let client = match &request.client {
            ClientEra::Modern(_) => None,
            ClientEra::Legacy(client) => {
                Some(StoredClient { info: client.info.clone(), capabilities: client.capabilities.clone() })
            }
        };
        let principal = request.context.caller::<HttpCaller>().and_then(HttpCaller::principal);
        Ok(Self {
            revision: request.revision,
            params: RawValue::from_string(params)?,
            client,
            principal: principal.map(StoredPrincipal::of),
        })
    }

    /// Returns the length of the texts of the client, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.params.get().len() + self.principal.as_ref().map_or(0, StoredPrincipal::bytes)
    }
}

/// Runs the handler of a stored task again, from its beginning. The run of the record must be the one that is starting.
pub(in crate::server) fn run_again(shared: &Arc<ServerShared>, record: &TaskRecord) -> Result<(), Failure> {
    let Some(stored) = &record.call else { return Err(Failure::internal("Task", "the call is not stored")) };
    let params = Params::from_json(Json::parse(stored.params.get().as_bytes())?);
    let members = RequestParams::read(params);
    let caller = HttpCaller::without_body(stored.principal.clone().map(StoredPrincipal::into_principal));
    let context = Context::detached(TOOLS_CALL, caller);
    let checked = modern::check_meta(TOOLS_CALL, &members.meta, &shared.settings.revisions);
    let legacy_client;
    let client = match (checked.map_err(|bad| bad.error())?, &stored.client) {
        (Some(modern), _) => ClientEra::Modern(modern),
        (None, stored) => {
            let (info, capabilities) = stored.clone().map(|it| (it.info, it.capabilities)).unwrap_or_default();
            legacy_client = Arc::new(LegacyClient::new(info, capabilities, None));
            ClientEra::Legacy(&legacy_client)
        }
    };
    let entries = shared.registry.entries();
    let request = IncomingRequest {
        context,
        params: members,
        revision: stored.revision,
        client,
        shared,
        entries: &entries,
        open_listens: &Arc::default(),
    };
    let name = members.name.and_then(Text::from_json).and_then(Text::to_str).unwrap_or_default();
    let Some(tool) = entries.tools.find(&name).filter(|tool| tool.is_restartable()) else {
        return Err(Failure::invalid_params("this node has no such tool that may run again"));
    };
    let (call, work) = start_layered(&request, InvocationTarget::Tool(Arc::clone(tool)), request.format(None))?;
    let task = TaskRun { tasks: shared.settings.tasks.clone(), id: Arc::clone(&record.id), run: record.run };
    call.enter_task(task.clone());
    tokio::spawn(run(task, record.era, record.time_left(), work, call).in_current_span());
    Ok(())
}
