//! Checks of tasks: the experimental tasks of 2025-11-25, and the extension io.modelcontextprotocol/tasks.

use super::Bound::Server;
use super::Document::{Page, Schema, TasksExtension};
use super::Reference::Other;
use super::rule::{Rule, must, states, written};
use super::{Category, Check, Document, LIVE_ANYWHERE, MODERN, Reference, SINCE_2025_11_25, Severity, V2025_11_25};

pub(crate) const CHECKS: &[&Check] = &[
    &TASK_UNDECLARED,
    &TASK_SHAPE,
    &TASK_STATUS,
    &TASK_IDS,
    &TASK_DETAILS,
    &TASK_RESULT_METADATA,
    &TASK_CANCEL,
    &TASK_UNKNOWN_ID,
    &TASK_EXTENSION,
];

const TASKS: Document = Page("basic/utilities/tasks");
const EXTENSION: &[Reference] = &[Other(
    "SEP-2663: the extension io.modelcontextprotocol/tasks",
    "https://modelcontextprotocol.io/seps/2663-tasks-extension",
)];

const BASE: Check = Check {
    skip: "no task was seen",
    revisions: SINCE_2025_11_25,
    category: Category::Tasks,
    references: EXTENSION,
    ..super::BASE
};
/// The default fields of a check that sends its own input.
const LIVE: Check = Check { skip: "the server declares no tasks", places: LIVE_ANYWHERE, ..BASE };

/// A rule of 2025-11-25 about a request without `task`.
pub(crate) static UNASKED_TASK: Rule =
    written(Server, &[states(V2025_11_25, TASKS, "Creating Tasks", "returns the actual operation result directly")]);

/// A rule of the extension about results of other methods.
pub(crate) static TASK_RESULT_TYPE: Rule = written(
    Server,
    &[must(
        MODERN,
        TasksExtension,
        "Polymorphic Results",
        "Servers MUST NOT set resultType to \"task\" on result types other than",
    )],
);

pub(crate) static TASK_UNDECLARED: Check = Check {
    id: "task-undeclared",
    title: "A call becomes a task only if both sides have agreed to it",
    why: "A client that does not know tasks takes the state of a task for the result of the call, and never fetches \
          the result.",
    rationale: "the result of the call is lost",
    looks_at: "results that are tasks, the capabilities that client and server have declared, and the member task of \
               the call",
    pass: "2026-07-28: the request declares the extension, and the method is tools/call. 2025-11-25: the call has \
           the member task, and the server has declared tasks.requests.tools.call",
    fail: "a result is a task, and one of these is missing",
    sentence: "a call becomes a task without being allowed to",
    rules: &[
        &written(
            Server,
            &[
                must(V2025_11_25, TASKS, "Task Support and Handling", "MUST process requests of that type normally"),
                must(
                    MODERN,
                    TasksExtension,
                    "Capability Negotiation",
                    "MUST NOT return CreateTaskResult to a client that did not include",
                ),
            ],
        ),
        &UNASKED_TASK,
        &TASK_RESULT_TYPE,
    ],
    remedy: "Look at the capabilities of each request, and answer with the result if the client cannot poll.",
    example: r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
    see: &["task-extension", "unknown-result-type", "undeclared-client-capability"],
    ..BASE
};

pub(crate) static TASK_SHAPE: Check = Check {
    id: "task-shape",
    title: "The state of a task is complete",
    why: "A client polls by the id, waits for the poll interval, and gives up after the time to live. If one of them \
          is missing or has another type, the client polls too often, too long or not at all.",
    rationale: "clients that check messages by the schema reject the state",
    looks_at: "every state of a task: in results and in notifications",
    pass: "taskId, createdAt and lastUpdatedAt are strings, status is one of the five; ttl (2025-11-25) is a number or \
           null, ttlMs (2026-07-28) an integer or null; pollInterval is missing or a number, pollIntervalMs missing or \
           an integer",
    fail: "one of these members is missing or has another type",
    sentence: "the state of a task is incomplete",
    rules: &[
        &written(
            Server,
            &[
                states(V2025_11_25, Schema, "Task", "ttl: number | null"),
                states(MODERN, TasksExtension, "Tasks", "Time-to-live duration from creation in integer milliseconds"),
            ],
        ),
        &TASK_ID_TYPE,
        &TASK_TIMES,
        &TASK_TTL,
    ],
    remedy: "Write all members in every state of the task; ttl and ttlMs are null if the task does not expire.",
    example: r#"{"taskId":"7f1c…","status":"working","createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:30:00Z","ttlMs":60000}"#,
    see: &["task-details", "task-status", "result-shape"],
    ..BASE
};

/// A rule of 2025-11-25 about the id.
pub(crate) static TASK_ID_TYPE: Rule =
    written(Server, &[must(V2025_11_25, TASKS, "Task ID Requirements", "Task IDs MUST be a string value")]);
/// A rule of 2025-11-25 about both times of a task.
pub(crate) static TASK_TIMES: Rule = written(
    Server,
    &[must(V2025_11_25, TASKS, "TTL and Resource Management", "timestamp in all task responses to indicate")],
);
/// A rule of 2025-11-25 about the results of `tasks/get`.
pub(crate) static TASK_TTL: Rule = written(
    Server,
    &[must(V2025_11_25, TASKS, "TTL and Resource Management", "MUST include the actual ttl duration (or null")],
);

pub(crate) static TASK_STATUS: Check = Check {
    id: "task-status",
    title: "The status of a task changes only as the specification allows",
    why: "A client stops polling when a task is completed, failed or cancelled. What happens to the task later, the \
          client does not see.",
    rationale: "clients have stopped polling, and miss the change",
    looks_at: "the status in the results of calls, of tasks/get and of tasks/cancel",
    pass: "a task that is completed, failed or cancelled keeps this status. 2025-11-25: a new task is working, and \
           tasks/cancel returns a cancelled task",
    fail: "tasks/get, sent after the task was over, returns another status; or a new task is not working, or a \
           cancelled one not cancelled (2025-11-25)",
    sentence: "a task has a status that it cannot have now",
    rules: &[
        &written(
            Server,
            &[
                must(V2025_11_25, TASKS, "Task Status Lifecycle", "MUST NOT transition to any other status"),
                states(MODERN, TasksExtension, "Task Status", "Terminal states:"),
            ],
        ),
        &TASK_BEGINS,
        &TASK_CANCELLED,
    ],
    remedy: "Set the last status once, together with the result, and ignore what the work does afterwards.",
    example: r#"{"taskId":"7f1c…","status":"completed"}  stays completed"#,
    see: &["task-shape", "task-cancel"],
    ..BASE
};

/// A rule of 2025-11-25 about new tasks.
pub(crate) static TASK_BEGINS: Rule =
    written(Server, &[must(V2025_11_25, TASKS, "Task Status Lifecycle", "Tasks MUST begin in the working status")]);
/// A rule of 2025-11-25 about `tasks/cancel`.
pub(crate) static TASK_CANCELLED: Rule = written(
    Server,
    &[must(V2025_11_25, TASKS, "Task Cancellation", "MUST transition the task to cancelled status before")],
);

pub(crate) static TASK_IDS: Check = Check {
    id: "task-ids",
    title: "Every task has an id of its own",
    why: "If two tasks have the same id, a client gets the result of one call as the result of another, maybe of \
          another user.",
    rationale: "results reach the wrong call",
    looks_at: "the ids of all tasks that a server creates on one connection, in one session or at one URL",
    pass: "no id is used twice",
    fail: "two calls are answered with the same id; in 2026-07-28 also with different times of creation",
    sentence: "two tasks have the same id",
    rules: &[&written(
        Server,
        &[
            must(V2025_11_25, TASKS, "Task ID Requirements", "Task IDs MUST be unique among all tasks"),
            states(MODERN, TasksExtension, "Tasks", "Each task is uniquely identifiable by a server-generated task ID"),
        ],
    )],
    remedy: "Generate a random id of at least 128 bits for each task.",
    example: r#"{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840"}"#,
    see: &["task-unknown-id", "task-shape"],
    ..BASE
};

pub(crate) static TASK_DETAILS: Check = Check {
    id: "task-details",
    title: "A state of a task has what its status promises",
    why: "In 2026-07-28 there is no other way to the result: a client that finds a completed task without its result, \
          or one that asks for nothing, cannot go on.",
    rationale: "the result or the question is lost",
    looks_at: "the results of tasks/get, and notifications/tasks",
    pass: "a completed task has the object result, a failed one the object error, one that is input_required the \
           object inputRequests",
    fail: "this member is missing or not an object",
    skip: "no state of a task that is over or asks for input was seen in 2026-07-28",
    sentence: "a task lacks its result, its error or its questions",
    revisions: MODERN,
    rules: &[
        &written(
            Server,
            &[must(MODERN, TasksExtension, "Response", "Upon receiving a tasks/get request, the server MUST check")],
        ),
        &NOTIFIED_DETAILS,
    ],
    remedy: "Write the stored result or error into every state after the end of the task.",
    example: r#"{"resultType":"complete","taskId":"7f1c…","status":"completed","result":{"content":[]},…}"#,
    see: &["task-shape", "input-required"],
    ..BASE
};

/// A rule of the extension about notifications.
pub(crate) static NOTIFIED_DETAILS: Rule = written(
    Server,
    &[states(
        MODERN,
        TasksExtension,
        "Task Status Notifications",
        "carries a complete DetailedTask for the current status",
    )],
);

pub(crate) static TASK_RESULT_METADATA: Check = Check {
    id: "task-result-metadata",
    title: "The result of tasks/result names its task",
    why: "The result of a call does not have the id of the task. A client with several tasks, or a proxy, cannot know \
          which task it belongs to.",
    severity: Severity::Low,
    rationale: "most clients know the task from the request",
    looks_at: "_meta in the results of tasks/result",
    pass: "io.modelcontextprotocol/related-task has the id of the task",
    fail: "the member is missing, or has another id",
    skip: "no result of tasks/result was seen",
    sentence: "the result of tasks/result does not name its task",
    revisions: V2025_11_25,
    rules: &[&written(
        Server,
        &[must(
            V2025_11_25,
            TASKS,
            "Related Task Metadata",
            "The tasks/result operation MUST include this metadata in its response",
        )],
    )],
    remedy: "Add the member to the _meta of the stored result, also if the tool has set a _meta of its own.",
    example: r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7f1c…"}},"content":[]}"#,
    see: &["task-ids", "result-shape"],
    references: &[],
    ..BASE
};

pub(crate) static TASK_CANCEL: Check = Check {
    id: "task-cancel",
    title: "tasks/cancel and tasks/update are answered as their revision says",
    why: "In 2025-11-25, a client learns from the error that the task was over before, and that it has a result. In \
          2026-07-28 the result is empty, because the task ends later or not at all.",
    severity: Severity::Low,
    rationale: "clients mistake a finished task for a cancelled one",
    looks_at: "the results of tasks/cancel, and in 2026-07-28 of tasks/update",
    pass: "2025-11-25: the cancellation of a task that is over is refused. 2026-07-28: the result has only resultType \
           and _meta",
    fail: "a task that is over is cancelled (2025-11-25), or the result has other members (2026-07-28)",
    skip: "neither tasks/cancel nor tasks/update was answered",
    sentence: "tasks/cancel or tasks/update has the wrong result",
    rules: &[&written(
        Server,
        &[
            must(V2025_11_25, TASKS, "Task Cancellation", "MUST reject cancellation requests for tasks already in a"),
            must(MODERN, TasksExtension, "Response", "the server MUST acknowledge the request with an empty result"),
        ],
    )],
    remedy: "Look at the status first, and choose the form of the result by the revision.",
    example: r#"{"code":-32602,"message":"Cannot cancel task: already in terminal status 'completed'"}"#,
    see: &["task-status", "empty-results"],
    // A task whose status changes after its end can be cancelled again.
    needs: &["early-exit", "mute-server", "handshake", "task-status"],
    ..BASE
};

pub(crate) static TASK_UNKNOWN_ID: Check = Check {
    id: "task-unknown-id",
    title: "An unknown task is answered with -32602",
    why: "A client that goes on after a restart asks for tasks that may have expired. It must tell them from tasks \
          that are still running, and from a server that has a problem.",
    rationale: "clients poll a task that does not exist",
    looks_at: "tasks/get with an id that the server has not issued; in 2025-11-25 also tasks/result and, if the server \
               declares it, tasks/cancel",
    pass: "each response is an error with code -32602",
    fail: "a response is a result or has another code, or there is no response",
    sentence: "an unknown task is not answered with -32602",
    rules: &[&written(
        Server,
        &[
            must(V2025_11_25, TASKS, "Protocol Errors", "MUST return standard JSON-RPC errors for the following"),
            must(MODERN, TasksExtension, "Protocol Errors", "Servers MUST return this error for tasks/get"),
        ],
    )],
    remedy: "Look the task up before anything else, and treat an expired task and a task of another client the same way.",
    example: r#"{"code":-32602,"message":"Failed to retrieve task: Task not found"}"#,
    see: &["task-ids", "invalid-params"],
    ..LIVE
};

pub(crate) static TASK_EXTENSION: Check = Check {
    id: "task-extension",
    title: "Methods of tasks need the extension in the request",
    why: "Every modern request says what its client can do. A server that serves tasks without the extension breaks a \
          proxy that takes extensions away, and hides a bug of the client.",
    severity: Severity::Low,
    rationale: "only clients with a bug are affected",
    looks_at: "tasks/get, tasks/update and tasks/cancel whose request does not declare the extension",
    pass: "the response is an error with code -32021",
    fail: "the response is a result, has another code, or is missing; in a capture only a result",
    skip: "the server does not declare the extension",
    sentence: "tasks are served to a client that has not declared the extension",
    revisions: MODERN,
    rules: &[&written(
        Server,
        &[must(
            MODERN,
            TasksExtension,
            "Protocol Errors",
            "Servers MUST return this error for non-declaring clients issuing tasks/get",
        )],
    )],
    remedy: "Check clientCapabilities in _meta before you look up the task.",
    example: r#"{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#,
    see: &["task-undeclared", "modern-meta"],
    ..BASE
};
