//! A request about tasks -> the scopes that the calls of their tools needed, which the request needs too.

use std::sync::Arc;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::Request;

use super::Tasks;
use super::listen::MAX_LISTENED_TASKS;
use crate::Failure;

/// Returns the ids of the tasks that a request names.
pub(in crate::server) fn task_ids(request: &Request<'_>, params: RequestParams<'_>) -> Vec<String> {
    let text = |json| Some(Text::from_json(json)?.to_str()?.into_owned());
    match &*request.method.to_name() {
        "tasks/get" | "tasks/result" | "tasks/update" | "tasks/cancel" => {
            params.task_id.and_then(text).into_iter().collect()
        }
        // Notifications contain the results of the tasks.
        "subscriptions/listen" => {
            let ids = request.params.and_then(|params| params.json().at(&["notifications", "taskIds"]));
            // A request with more ids is refused.
            ids.into_iter().flat_map(Json::elements).take(MAX_LISTENED_TASKS).filter_map(text).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the scopes that the tools of these tasks need. Tasks that do not belong to the sender are skipped: the answer
/// for them is the same as for tasks that do not exist.
pub(in crate::server) async fn scopes_of_tasks(
    tasks: &Tasks,
    ids: Vec<String>,
    principal: Option<&str>,
) -> Result<Vec<Arc<[String]>>, Failure> {
    let mut scopes = Vec::new();
    for id in ids {
        let record = tasks.store.get(&id).await?;
        scopes.extend(record.filter(|record| record.owner.is_sender(principal)).map(|record| record.scopes));
    }
    Ok(scopes)
}
