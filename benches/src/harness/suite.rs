//! What is measured together: contenders in the order they take turns, workloads, and what ours must keep.

use super::contender::{Contender, OFFICIAL_PACKAGE, OUR_PACKAGE, Role, Speaks, THREADS_PACKAGE};
use super::era::Era;
use super::workload::Workload;

/// One table.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The word that asks for it.
    pub(crate) name: &'static str,
    pub(crate) contenders: &'static [Contender],
    pub(crate) workloads: &'static [Workload],
    /// First calls after a start whose time is taken as well.
    pub(crate) starts: &'static [Workload],
    pub(crate) limits: &'static [Limit],
}

/// What none of ours may exceed.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) of: Measure,
    pub(crate) most: f64,
}

#[derive(Debug)]
pub(crate) enum Measure {
    /// Processor time against the floor's.
    Cpu(&'static Workload),
    /// The median of the latencies against the floor's.
    P50(&'static Workload),
    /// Resident MiB of a server that does nothing.
    Idle,
    /// The time to the first answer against that of each of theirs.
    Start(&'static Workload),
}

impl Suite {
    pub(crate) fn floor(&self) -> &'static Contender {
        self.contenders.iter().find(|one| one.role == Role::Floor).expect("every suite has a floor")
    }

    pub(crate) fn of(&self, role: Role) -> impl Iterator<Item = &'static Contender> {
        self.contenders.iter().filter(move |one| one.role == role)
    }
}

/// Every table there is; the first is the one that is not asked for by name.
pub(crate) static SUITES: [Suite; 2] = [
    Suite {
        name: "wire",
        contenders: &WIRE_CONTENDERS,
        workloads: &WIRE_WORKLOADS,
        starts: &[],
        limits: &[
            Limit { of: Measure::Cpu(&WIRE_WORKLOADS[0]), most: 1.5 },
            Limit { of: Measure::P50(&WIRE_WORKLOADS[3]), most: 1.5 },
            Limit { of: Measure::Cpu(&WIRE_WORKLOADS[1]), most: 1.2 },
            Limit { of: Measure::Cpu(&WIRE_WORKLOADS[2]), most: 1.2 },
            Limit { of: Measure::Idle, most: 3.0 },
        ],
    },
    Suite {
        name: "mcp",
        contenders: &MCP_CONTENDERS,
        workloads: &MCP_WORKLOADS,
        starts: &STARTS,
        limits: &[
            Limit { of: Measure::Cpu(&MCP_WORKLOADS[0]), most: 2.0 },
            Limit { of: Measure::Cpu(&MCP_WORKLOADS[1]), most: 2.5 },
            Limit { of: Measure::Start(&STARTS[0]), most: 1.0 },
            Limit { of: Measure::Start(&STARTS[1]), most: 1.0 },
        ],
    },
];

static WIRE_CONTENDERS: [Contender; 5] = [
    Contender {
        letter: 'a',
        name: "floor",
        what: "a hand-written loop on serde_json",
        role: Role::Floor,
        speaks: Speaks::Bare,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "blocking",
        what: "barewire without a runtime",
        role: Role::Ours,
        speaks: Speaks::Bare,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'c',
        name: "engine",
        what: "barewire's engine",
        role: Role::Ours,
        speaks: Speaks::Bare,
        package: OUR_PACKAGE,
    },
    RMCP_DEFAULT,
    RMCP_BEST,
];

static MCP_CONTENDERS: [Contender; 5] = [
    Contender {
        letter: 'a',
        name: "mcp-floor",
        what: "a hand-written loop on serde_json, both eras",
        role: Role::Floor,
        speaks: Speaks::Mcp,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "mcp-server",
        what: "barewire's server, one thread",
        role: Role::Ours,
        speaks: Speaks::Mcp,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'c',
        name: "mcp-threads",
        what: "the same, a thread a processor",
        role: Role::Aside,
        speaks: Speaks::Mcp,
        package: THREADS_PACKAGE,
    },
    RMCP_DEFAULT,
    RMCP_BEST,
];

const RMCP_DEFAULT: Contender = Contender {
    letter: 'd',
    name: "rmcp-default",
    what: "rmcp 3.8.0, a thread a processor, stdio(), #[tool]",
    role: Role::Theirs,
    speaks: Speaks::Mcp,
    package: OFFICIAL_PACKAGE,
};

const RMCP_BEST: Contender = Contender {
    letter: 'e',
    name: "rmcp-best",
    what: "rmcp 3.8.0, one thread, stdio_pipes(), call_tool by hand",
    role: Role::Theirs,
    speaks: Speaks::Mcp,
    package: OFFICIAL_PACKAGE,
};

/// A round is some five milliseconds of the floor's time, which the scheduler accounts for in nanoseconds. Many short rounds
/// are steadier than a few long ones, because what disturbs a machine lasts.
static WIRE_WORKLOADS: [Workload; 4] = [
    Workload { name: "pipelined 64 B", ..PIPELINED },
    Workload { name: "pipelined 4 KiB", text: 4 << 10, depth: 64, bursts: 32, ..PIPELINED },
    Workload { name: "pipelined 1 MiB", text: 1 << 20, depth: 4, bursts: 8, counted: 2, ..PIPELINED },
    Workload { name: "ping-pong 64 B", ..PING_PONG },
];

static MCP_WORKLOADS: [Workload; 4] = [
    Workload { name: "mcp-legacy pipelined 64 B", is_error: false, ..PIPELINED },
    Workload { name: "mcp-modern pipelined 64 B", era: Era::Modern, is_error: false, ..PIPELINED },
    Workload { name: "mcp-legacy ping-pong 64 B", is_error: false, ..PING_PONG },
    Workload { name: "mcp-modern ping-pong 64 B", era: Era::Modern, is_error: false, ..PING_PONG },
];

static STARTS: [Workload; 2] = [
    Workload { name: "mcp-legacy start, initialize, call", is_error: false, ..PING_PONG },
    Workload { name: "mcp-modern start, discover, call", era: Era::Modern, is_error: false, ..PING_PONG },
];

const PIPELINED: Workload = Workload {
    name: "",
    era: Era::Legacy,
    text: 64,
    is_error: true,
    depth: 256,
    bursts: 40,
    counted: 4,
    one_core: false,
};

const PING_PONG: Workload = Workload { depth: 1, bursts: 2000, counted: 400, one_core: true, ..PIPELINED };
