//! The suites: contenders in the order of their turns, workloads, and the limits for ours.

use super::contender::{Contender, OFFICIAL_PACKAGE, OUR_PACKAGE, Protocol, Role, THREADS_PACKAGE};
use super::era::Era;
use super::workload::Workload;

/// The contenders, workloads and limits of one table.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The name of the subject on the command line.
    pub(crate) name: &'static str,
    pub(crate) contenders: &'static [Contender],
    pub(crate) workloads: &'static [Workload],
    /// The first calls after a start, whose time is measured as well.
    pub(crate) starts: &'static [Workload],
    pub(crate) limits: &'static [Limit],
}

/// A limit that none of our servers may exceed.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) of: Measure,
    pub(crate) most: f64,
}

#[derive(Debug)]
pub(crate) enum Measure {
    /// CPU time relative to the floor's.
    Cpu(&'static Workload),
    /// The median latency relative to the floor's.
    P50(&'static Workload),
    /// The resident memory of an idle server, in MiB.
    Idle,
    /// The time to the first answer relative to each server of the official SDK.
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

/// All suites. The first is the default.
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
        protocol: Protocol::Bare,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "blocking",
        what: "barewire without a runtime",
        role: Role::Ours,
        protocol: Protocol::Bare,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'c',
        name: "engine",
        what: "barewire's engine",
        role: Role::Ours,
        protocol: Protocol::Bare,
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
        protocol: Protocol::Mcp,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'b',
        name: "mcp-server",
        what: "barewire's server, one thread",
        role: Role::Ours,
        protocol: Protocol::Mcp,
        package: OUR_PACKAGE,
    },
    Contender {
        letter: 'c',
        name: "mcp-threads",
        what: "the same, a thread a processor",
        role: Role::Aside,
        protocol: Protocol::Mcp,
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
    protocol: Protocol::Mcp,
    package: OFFICIAL_PACKAGE,
};

const RMCP_BEST: Contender = Contender {
    letter: 'e',
    name: "rmcp-best",
    what: "rmcp 3.8.0, one thread, stdio_pipes(), call_tool by hand",
    role: Role::Theirs,
    protocol: Protocol::Mcp,
    package: OFFICIAL_PACKAGE,
};

/// A round takes the floor about five milliseconds, which the scheduler accounts for in nanoseconds. Many short rounds
/// are steadier than a few long ones, because disturbances of the machine last longer than a round.
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
