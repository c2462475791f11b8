//! The settings of a load, and the division of the load into turns.

use std::time::Duration;

use barewire_proto::mcp::Revision;

/// The settings of a load.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LoadSettings {
    /// The maximum number of open requests.
    pub in_flight: usize,
    /// The number of requests per second. Without a rate, each request is sent as soon as an earlier one is answered.
    pub rate: Option<f64>,
    /// The amount of load for each server.
    pub amount: Amount,
    /// The time for which each server is loaded before anything is counted.
    pub warm_up: Duration,
    /// The time after which a request without an answer counts as lost.
    pub timeout: Duration,
    /// The only revision of MCP to use. Without it, client and server negotiate the newest revision that both support.
    pub revision: Option<Revision>,
}

/// The amount of load for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "load ends after a time or a count")]
pub enum Amount {
    /// As many requests as possible in this time.
    Time(Duration),
    /// This number of requests.
    Count(u64),
}

/// The default: one request at a time for five seconds, after a warm-up of half a second; a timeout of ten seconds.
impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            in_flight: 1,
            rate: None,
            amount: Amount::Time(Duration::from_secs(5)),
            warm_up: Duration::from_millis(500),
            timeout: Duration::from_secs(10),
            revision: None,
        }
    }
}

impl Amount {
    /// Divides the amount into turns for several servers; a single server has only one turn.
    pub(super) fn turns(self, servers: usize) -> Vec<Self> {
        if servers < 2 {
            return vec![self];
        }
        match self {
            Self::Time(whole) => {
                let parts = (whole.as_millis() / TURN_LENGTH.as_millis()).clamp(MIN_TURNS, MAX_TURNS);
                let parts = u32::try_from(parts).expect("no more than MAX_TURNS");
                vec![Self::Time(whole / parts); parts as usize]
            }
            Self::Count(whole) => {
                let parts = u64::try_from(MIN_TURNS).expect("a small number").min(whole);
                let part = |at: u64| Self::Count(whole / parts + u64::from(at < whole % parts));
                (0..parts).map(part).collect()
            }
        }
    }
}

/// The length of a turn: longer than a request, and shorter than the usual disturbance on a machine.
const TURN_LENGTH: Duration = Duration::from_millis(200);

/// The minimum and maximum number of turns for each server.
const MIN_TURNS: u128 = 8;
const MAX_TURNS: u128 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_add_up() {
        for count in [1, 7, 8, 1003] {
            let sum: u64 = Amount::Count(count).turns(2).iter().fold(0, |sum, turn| match turn {
                Amount::Count(part) => sum + part,
                Amount::Time(_) => unreachable!("a count is cut into counts"),
            });
            assert_eq!(sum, count);
        }
        assert_eq!(Amount::Time(Duration::from_secs(4)).turns(2).len(), 20);
        assert_eq!(Amount::Time(Duration::from_secs(4)).turns(1).len(), 1);
    }
}
