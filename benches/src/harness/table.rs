//! The rounds as a table with the targets below it, or both as JSON.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::contender::{Contender, Role};
use super::measure::{Round, Start};
use super::suite::{Limit, Measure, Suite};
use super::workload::{AnswerMatch, Workload};

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(skip)]
    suite: &'static Suite,
    rounds: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) starts: Vec<StartRow>,
    pub(crate) idle: Vec<Idle>,
    pub(crate) marks: Vec<Target>,
}

/// The results of one contender under one workload. Times are in nanoseconds, for one request. A ratio is the median of
/// the ratios to the floor in the same round.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    workload: &'static str,
    contender: &'static str,
    cpu: f64,
    cpu_least: f64,
    cpu_ratio: Option<f64>,
    p50: Option<f64>,
    p50_ratio: Option<f64>,
    p99: Option<f64>,
    same_bytes: bool,
    pub(crate) instructions: Option<f64>,
}

/// The times of one contender from its start to its first answer, in nanoseconds; ratios as in a [`Row`].
#[derive(Debug, Serialize)]
pub(crate) struct StartRow {
    start: &'static str,
    contender: &'static str,
    wall: f64,
    wall_ratio: Option<f64>,
    cpu: f64,
    cpu_ratio: Option<f64>,
    pub(crate) instructions: Option<f64>,
    /// All starts, in order.
    #[serde(skip)]
    walls: Vec<f64>,
}

/// The resident memory of an idle server.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) contender: &'static str,
    pub(crate) resident_kib: u64,
}

/// A value that one of our servers must not exceed, or a ratio without a limit that is only shown.
#[derive(Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) found: Option<f64>,
    pub(crate) most: Option<f64>,
    pub(crate) unit: &'static str,
}

impl Row {
    pub(crate) fn new(workload: &Workload, contender: &Contender, rounds: &[Round], floor: Option<&[Round]>) -> Self {
        let of = |take: fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(take).collect());
        let ratio = |take: fn(&Round) -> Option<f64>| {
            let pairs = rounds.iter().zip(floor?);
            median(pairs.filter_map(|(ours, floor)| Some(take(ours)? / take(floor)?)).collect())
        };
        let cpu = |round: &Round| Some(round.cpu);
        let p50 = |round: &Round| Some(round.latency?.p50);
        Self {
            workload: workload.name,
            contender: contender.name,
            cpu: of(cpu).expect("there is at least one round"),
            cpu_least: rounds.iter().map(|round| round.cpu).fold(f64::INFINITY, f64::min),
            cpu_ratio: ratio(cpu),
            p50: of(p50),
            p50_ratio: ratio(p50),
            p99: of(|round| Some(round.latency?.p99)),
            same_bytes: rounds.iter().all(|round| round.likeness == AnswerMatch::Bytes),
            instructions: None,
        }
    }
}

impl StartRow {
    pub(crate) fn new(first: &Workload, contender: &Contender, starts: &[Start], floor: Option<&[Start]>) -> Self {
        let of =
            |take: fn(&Start) -> f64| median(starts.iter().map(take).collect()).expect("there is at least one start");
        let ratio = |take: fn(&Start) -> f64| {
            median(starts.iter().zip(floor?).map(|(ours, floor)| take(ours) / take(floor)).collect())
        };
        let wall = |start: &Start| start.wall;
        let cpu = |start: &Start| start.cpu;
        Self {
            start: first.name,
            contender: contender.name,
            wall: of(wall),
            wall_ratio: ratio(wall),
            cpu: of(cpu),
            cpu_ratio: ratio(cpu),
            instructions: None,
            walls: starts.iter().map(wall).collect(),
        }
    }

    /// The time relative to that of another contender that started in turns with it.
    fn against(&self, other: &Self) -> Option<f64> {
        median(self.walls.iter().zip(&other.walls).map(|(ours, theirs)| ours / theirs).collect())
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl Report {
    pub(crate) fn new(suite: &'static Suite, rounds: usize) -> Self {
        let (rows, starts, idle, marks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { suite, rounds, rows, starts, idle, marks }
    }

    fn row(&self, workload: &Workload, contender: &Contender) -> Option<&Row> {
        self.rows.iter().find(|row| row.workload == workload.name && row.contender == contender.name)
    }

    fn start(&self, first: &Workload, contender: &Contender) -> Option<&StartRow> {
        self.starts.iter().find(|row| row.start == first.name && row.contender == contender.name)
    }

    fn idle(&self, contender: &Contender) -> Option<f64> {
        let idle = self.idle.iter().find(|idle| idle.contender == contender.name)?;
        Some(idle.resident_kib as f64 / 1024.0)
    }

    /// Fills in the targets from the rows.
    pub(crate) fn judge(&mut self) {
        for ours in self.suite.of(Role::Ours) {
            let marks = self.suite.limits.iter().flat_map(|limit| self.marks_of(ours, limit));
            let marks: Vec<_> = marks.collect();
            self.marks.extend(marks);
        }
        for ours in self.suite.of(Role::Ours) {
            self.marks.extend(self.distances_of(ours));
        }
    }

    fn marks_of(&self, ours: &Contender, limit: &Limit) -> Vec<Target> {
        let mark = |what: String, found, unit| Target { what, found, most: Some(limit.most), unit };
        let against = |other: &Contender, what: &str| format!("({}) / ({}) {what}", ours.letter, other.letter);
        let floor = self.suite.floor();
        match limit.of {
            Measure::Cpu(workload) => {
                let found = self.row(workload, ours).and_then(|row| row.cpu_ratio);
                vec![mark(against(floor, workload.name) + " CPU", found, "")]
            }
            Measure::P50(workload) => {
                let found = self.row(workload, ours).and_then(|row| row.p50_ratio);
                vec![mark(against(floor, workload.name) + " p50", found, "")]
            }
            Measure::Idle => vec![mark(format!("({}) idle memory", ours.letter), self.idle(ours), " MiB")],
            Measure::Start(first) => {
                let theirs = self.suite.of(Role::Theirs);
                let found = |their| self.start(first, ours)?.against(self.start(first, their)?);
                theirs.map(|their| mark(against(their, first.name), found(their), "")).collect()
            }
        }
    }

    /// The ratios of the official SDK's medians to ours.
    fn distances_of(&self, ours: &Contender) -> Vec<Target> {
        let mut marks = Vec::new();
        let workloads = self.suite.workloads;
        let theirs = self.suite.of(Role::Theirs);
        for (theirs, workload) in theirs.flat_map(|theirs| workloads.iter().map(move |w| (theirs, w))) {
            let (Some(our), Some(their)) = (self.row(workload, ours), self.row(workload, theirs)) else {
                continue;
            };
            let what = format!("({}) / ({}) {}", theirs.letter, ours.letter, workload.name);
            let (what, found) = match (our.p50, their.p50) {
                (Some(our), Some(their)) => (what + " p50", their / our),
                _ => (what + " CPU", their.cpu / our.cpu),
            };
            marks.push(Target { what, found: Some(found), most: None, unit: "" });
        }
        marks
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (contenders, floor) = (self.suite.contenders, self.suite.floor());
        let a = floor.letter;
        writeln!(f, "One request, median of {} rounds in turns; x({a}) is the ratio to the floor.", self.rounds)?;
        for contender in contenders {
            writeln!(f, "  {:<18}{}", contender.title(), contender.what)?;
        }
        let ratio = format!("x({a})");
        writeln!(
            f,
            "\n{:<19} {:>10} {:>10} {ratio:>7} {:>10} {ratio:>7} {:>10} {:>12} {ratio:>7}",
            "", "CPU", "least", "p50", "p99", "instructions"
        )?;
        for workload in self.suite.workloads {
            writeln!(f, "{}", workload.name)?;
            let floor = self.row(workload, floor).and_then(|row| row.instructions);
            for contender in contenders {
                let row = self.row(workload, contender);
                let star = if row.is_some_and(|row| !row.same_bytes) { "*" } else { "" };
                write!(f, "  {:<17} ", contender.title() + star)?;
                match row {
                    Some(row) => row.write(f, floor)?,
                    None => writeln!(f, "{:>10}", ABSENT)?,
                }
            }
        }
        if !self.starts.is_empty() {
            self.write_starts(f)?;
        }
        writeln!(f, "idle, resident")?;
        for contender in contenders {
            write!(f, "  {:<17} ", contender.title())?;
            match self.idle(contender) {
                Some(mib) => writeln!(f, "{:>10}", format!("{mib:.2} MiB"))?,
                None => writeln!(f, "{:>10}", ABSENT)?,
            }
        }
        if self.rows.iter().any(|row| !row.same_bytes) {
            writeln!(f, "* in another order or with other members, with the same ids and texts")?;
        }
        writeln!(f)?;
        self.marks.iter().try_for_each(|mark| writeln!(f, "{mark}"))
    }
}

impl Report {
    fn write_starts(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let floor = self.suite.floor();
        let ratio = format!("x({})", floor.letter);
        writeln!(
            f,
            "\n{:<19} {:>10} {ratio:>7} {:>10} {ratio:>7} {:>12} {ratio:>7}",
            "", "first", "CPU", "instructions"
        )?;
        for first in self.suite.starts {
            writeln!(f, "{}", first.name)?;
            let floor = self.start(first, floor).and_then(|row| row.instructions);
            for contender in self.suite.contenders {
                write!(f, "  {:<17} ", contender.title())?;
                match self.start(first, contender) {
                    Some(row) => row.write(f, floor)?,
                    None => writeln!(f, "{:>10}", ABSENT)?,
                }
            }
        }
        Ok(())
    }
}

impl StartRow {
    fn write(&self, f: &mut Formatter<'_>, floor_instructions: Option<f64>) -> fmt::Result {
        let line = format!(
            "{:>10} {:>7} {:>10} {:>7} {:>12} {:>7}",
            micros(Some(self.wall)),
            ratio(self.wall_ratio),
            micros(Some(self.cpu)),
            ratio(self.cpu_ratio),
            count(self.instructions),
            ratio(share(self.instructions, floor_instructions)),
        );
        writeln!(f, "{}", line.trim_end())
    }
}

impl Row {
    fn write(&self, f: &mut Formatter<'_>, floor_instructions: Option<f64>) -> fmt::Result {
        let line = format!(
            "{:>10} {:>10} {:>7} {:>10} {:>7} {:>10} {:>12} {:>7}",
            micros(Some(self.cpu)),
            micros(Some(self.cpu_least)),
            ratio(self.cpu_ratio),
            micros(self.p50),
            ratio(self.p50_ratio),
            micros(self.p99),
            count(self.instructions),
            ratio(share(self.instructions, floor_instructions)),
        );
        writeln!(f, "{}", line.trim_end())
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, found, most, unit } = self;
        match (found, most) {
            (Some(found), Some(most)) => {
                let verdict = if found <= most { "holds" } else { "MISSED" };
                write!(f, "{what}: {found:.2}{unit} (mark {most}{unit}) {verdict}")
            }
            (Some(found), None) => write!(f, "{what}: {found:.2}{unit}"),
            (None, Some(most)) => write!(f, "{what}: {ABSENT} (mark {most}{unit})"),
            (None, None) => write!(f, "{what}: {ABSENT}"),
        }
    }
}

pub(crate) fn micros(nanos: Option<f64>) -> String {
    nanos.map_or(String::new(), |nanos| format!("{:.2} us", nanos / 1000.0))
}

pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
}

pub(crate) fn count(count: Option<f64>) -> String {
    count.map_or(String::new(), |count| format!("{count:.0}"))
}

pub(crate) fn share(ours: Option<f64>, floor: Option<f64>) -> Option<f64> {
    Some(ours? / floor?)
}

/// The text for a value that was not measured.
const ABSENT: &str = "left out";
