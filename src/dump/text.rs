//! A dump as text, for a terminal or a log.
//!
//! Ground rule: each timer and each task takes one line. The columns are aligned, however many lines there are.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use super::{Dump, TaskInfo, TaskState, TimerInfo, Wakes};
use crate::clock::Instant;
use crate::task::Id;

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {}", counted(self.tasks.len(), "task"), counted(self.timers.len(), "timer"))?;
        // The first timer of each task, and how many it has.
        let mut of_task: HashMap<Id, (&TimerInfo, usize)> = HashMap::new();
        for timer in &self.timers {
            if let Wakes::Task(id) = timer.wakes {
                of_task.entry(id).or_insert((timer, 0)).1 += 1;
            }
        }
        let made = self.timers.iter().map(|timer| length(timer.made_at)).max().unwrap_or(0);
        let spawned = self.tasks.iter().map(|task| length(task.spawned_at)).max().unwrap_or(0);
        // "spawned" is three letters longer than "made".
        let place = (made + "made at ".len()).max(spawned + "spawned at ".len());
        let names: Vec<String> = self.tasks.iter().map(name).collect();
        let column = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(14);
        if !self.timers.is_empty() {
            writeln!(f, "timers, by deadline:")?;
        }
        for timer in &self.timers {
            let (when, made) = (when(self.at, timer.deadline), format!("made at {}", timer.made_at));
            write!(f, "  {when:<column$} {made:<place$}  wakes ")?;
            match timer.wakes {
                Wakes::Task(id) => writeln!(f, "task {id}")?,
                Wakes::BlockOn => writeln!(f, "block_on")?,
                Wakes::Foreign => writeln!(f, "a foreign waker")?,
            }
        }
        if !self.tasks.is_empty() {
            writeln!(f, "tasks, in the order of spawning:")?;
        }
        for (task, name) in self.tasks.iter().zip(names) {
            let spawned = format!("spawned at {}", task.spawned_at);
            write!(f, "  {name:<column$} {spawned:<place$}  ")?;
            f.write_str(match task.state {
                TaskState::Running => "running",
                TaskState::Ready => "ready",
                TaskState::Waiting => "waiting",
            })?;
            match of_task.get(&task.id) {
                Some((first, count)) => {
                    let first = when(self.at, first.deadline);
                    writeln!(f, ", for {}: {first}", counted(*count, "timer"))?;
                }
                None if task.state == TaskState::Waiting => writeln!(f, ", for no timer")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// The name of a task.
fn name(task: &TaskInfo) -> String {
    match &task.name {
        Some(name) => format!("task {} {name:?}", task.id),
        None => format!("task {}", task.id),
    }
}

/// How many of something.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn length(place: &Location<'_>) -> usize {
    place.to_string().len()
}

/// When a deadline is, seen from `now`.
fn when(now: Instant, deadline: Instant) -> String {
    match deadline.checked_duration_since(now) {
        // The deadline is as far away as a time can be.
        Some(_) if deadline == now + Duration::MAX => "never".to_owned(),
        Some(left) => format!("in {left:.1?}"),
        None => format!("{:.1?} overdue", now - deadline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_and_say_when() {
        let at = Instant::now();
        let made_at = Location::caller();
        let timer = |deadline, wakes| TimerInfo { deadline, made_at, wakes };
        let task = |id, state| TaskInfo { id: Id::new(id), name: None, spawned_at: made_at, state };
        let dump = Dump {
            at,
            tasks: vec![
                task(7, TaskState::Waiting),
                task(1_000_000, TaskState::Running),
                task(1_000_001, TaskState::Waiting),
            ],
            timers: vec![
                timer(at - Duration::from_millis(3), Wakes::BlockOn),
                timer(at + Duration::from_secs(5), Wakes::Task(Id::new(7))),
                timer(at + Duration::from_secs(50), Wakes::Task(Id::new(7))),
                timer(at + Duration::MAX, Wakes::Foreign),
            ],
        };
        let text = dump.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "3 tasks, 4 timers");
        assert!(lines[2].starts_with("  3.0ms overdue") && lines[2].ends_with("wakes block_on"), "{text}");
        assert!(lines[3].starts_with("  in 5.0s ") && lines[3].ends_with("wakes task 7"), "{text}");
        assert!(lines[5].starts_with("  never ") && lines[5].ends_with("wakes a foreign waker"), "{text}");
        assert!(lines[7].ends_with("waiting, for 2 timers: in 5.0s"), "{text}");
        assert!(lines[8].ends_with("running") && lines[9].ends_with("waiting, for no timer"), "{text}");
        let columns = |from: &str| lines.iter().filter_map(|line| line.find(from)).collect::<Vec<_>>();
        for words in ["wakes", "made at", "spawned at"] {
            let columns = columns(words);
            assert!(columns.len() > 1 && columns.iter().all(|column| *column == columns[0]), "{text}");
        }
        assert_eq!(lines.len(), 10);
    }

    #[test]
    fn nothing_pending_is_one_line() {
        let dump = Dump { at: Instant::now(), tasks: Vec::new(), timers: Vec::new() };
        assert_eq!(dump.to_string(), "0 tasks, 0 timers\n");
    }
}
