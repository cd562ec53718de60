//! How much of each workload is done: all of it, enough for an impression, or just enough to see that it
//! works.

use std::time::Duration;

/// How much work is done.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub(crate) name: &'static str,
    /// How often each child is run.
    pub(crate) rounds: usize,
    /// No round is begun that would probably end after this time.
    pub(crate) budget: Duration,
    /// The time limit of a child.
    pub(crate) limit: Duration,
    /// How many operations are timed together, and how often.
    pub(crate) ops: usize,
    pub(crate) batches: usize,
    /// The numbers of other live timers in W1. The third is also the number in the other workloads.
    pub(crate) live: [usize; 4],
    /// How many timers are in a burst, and how long a time it is spread over.
    pub(crate) burst: usize,
    pub(crate) small_bursts: [usize; 2],
    pub(crate) spread: Duration,
    /// How many sleeps of each length are measured.
    pub(crate) samples: usize,
    /// How many tasks loop, from few to many; how many tick; how long both kinds, and the busy sides, are
    /// watched.
    pub(crate) looping: [usize; 3],
    pub(crate) tasks: usize,
    pub(crate) watch: Duration,
    /// How many tasks compute in turn, and how many compute when one event wakes them.
    pub(crate) crowd: usize,
    pub(crate) herd: usize,
    /// How many connections there are, and how many requests they make.
    pub(crate) connections: usize,
    pub(crate) requests: usize,
    /// How many connections there are in the measurements with many.
    pub(crate) many_connections: usize,
    /// How many sleeps are registered and dropped.
    pub(crate) dropped: usize,
    /// How many tasks churn, and how many of their operations are measured.
    pub(crate) churning: usize,
    pub(crate) churns: usize,
    /// How many intervals tick, and with which period.
    pub(crate) ticking: usize,
    pub(crate) period: Duration,
    /// How many timers are due within a millisecond.
    pub(crate) crush: usize,
    /// How many tasks make requests to another task, and how many of these requests are measured.
    pub(crate) clients: usize,
    pub(crate) exchanges: usize,
    /// How many values are put into a queue.
    pub(crate) queued: usize,
    /// How many sleeps are made to measure their memory.
    pub(crate) weighed: usize,
    /// How many timers are live during the search for pauses, and how long the search takes.
    pub(crate) pause_timers: usize,
    pub(crate) pause_watch: Duration,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Scale {
    pub(crate) fn full() -> Scale {
        Scale {
            name: "full",
            rounds: 7,
            budget: Duration::MAX,
            limit: 3 * MINUTE,
            ops: 20_000,
            batches: 15,
            live: [0, 1_000, 100_000, 1_000_000],
            burst: 1_000_000,
            small_bursts: [10_000, 100_000],
            spread: Duration::from_secs(1),
            samples: 200,
            looping: [100, 1_000, 10_000],
            tasks: 10_000,
            watch: Duration::from_secs(2),
            crowd: 1_000,
            herd: 10_000,
            connections: 64,
            requests: 400_000,
            many_connections: 4_000,
            dropped: 1_000_000,
            churning: 100_000,
            churns: 3_000_000,
            ticking: 200_000,
            period: Duration::from_secs(1),
            crush: 200_000,
            clients: 20_000,
            exchanges: 4_000_000,
            queued: 200_000,
            weighed: 500_000,
            pause_timers: 1_000_000,
            // Long enough for the slots of level 5, which are 17 s wide, to be opened.
            pause_watch: Duration::from_secs(20),
        }
    }

    pub(crate) fn quick() -> Scale {
        Scale {
            name: "quick",
            rounds: 2,
            budget: Duration::from_secs(160),
            limit: Duration::from_secs(20),
            ops: 10_000,
            batches: 5,
            burst: 200_000,
            spread: Duration::from_millis(500),
            samples: 40,
            watch: Duration::from_millis(500),
            requests: 60_000,
            dropped: 200_000,
            churns: 500_000,
            exchanges: 1_000_000,
            weighed: 200_000,
            pause_timers: 300_000,
            pause_watch: Duration::from_secs(1),
            ..Scale::full()
        }
    }

    pub(crate) fn smoke() -> Scale {
        Scale {
            name: "smoke",
            rounds: 1,
            limit: MINUTE,
            ops: 100,
            batches: 2,
            live: [0, 10, 100, 1_000],
            burst: 1_000,
            small_bursts: [100, 300],
            spread: Duration::from_millis(10),
            samples: 2,
            looping: [2, 5, 20],
            tasks: 20,
            watch: Duration::from_millis(60),
            crowd: 20,
            herd: 100,
            connections: 4,
            requests: 4_000,
            many_connections: 16,
            dropped: 1_000,
            churning: 500,
            churns: 1_000,
            ticking: 200,
            period: Duration::from_millis(20),
            crush: 1_000,
            clients: 50,
            exchanges: 5_000,
            queued: 1_000,
            weighed: 2_000,
            pause_timers: 1_000,
            pause_watch: Duration::from_millis(50),
            ..Scale::full()
        }
    }

    /// Returns the scale with that name.
    pub(crate) fn named(name: &str) -> Option<Scale> {
        [Scale::full(), Scale::quick(), Scale::smoke()].into_iter().find(|scale| scale.name == name)
    }
}

/// Formats a number as people write it: `100k`, `1M`.
pub(crate) fn short(count: usize) -> String {
    match count {
        0 => "0".into(),
        count if count % 1_000_000 == 0 => format!("{}M", count / 1_000_000),
        count if count % 1_000 == 0 => format!("{}k", count / 1_000),
        count => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts = [0, 10, 1_000, 1_500, 100_000, 1_000_000];
        assert_eq!(counts.map(short), ["0", "10", "1k", "1500", "100k", "1M"]);
    }

    #[test]
    fn scales_are_found_by_name() {
        assert_eq!(Scale::named("quick").map(|scale| scale.name), Some("quick"));
        assert!(Scale::named("huge").is_none());
    }
}
