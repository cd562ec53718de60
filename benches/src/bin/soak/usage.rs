//! The resources that the process holds: descriptors and memory.

use std::alloc::System;
use std::fmt;

use cap::Cap;

/// Counts the allocated bytes; there is no limit.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How many more bytes may be allocated at the end than at the start: what std keeps for threads that have
/// ended, and for signals.
const KEPT: usize = 32 * KIB;
/// How many more bytes than at the start may be allocated at any time.
const PEAK: usize = 16 * MIB;
/// How many more bytes may be resident at the end: the allocator keeps pages of freed memory.
const RESIDENT: usize = 32 * MIB;

/// The resources that the process holds at one moment. `None` if the system does not report it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    descriptors: Option<usize>,
    allocated: usize,
    resident: Option<usize>,
}

impl Usage {
    pub(crate) fn now() -> Usage {
        let (descriptors, resident) = (descriptors(), resident());
        Usage { descriptors, allocated: ALLOCATOR.allocated(), resident }
    }

    /// Returns what is wrong if the soak began with this usage and ended with `end`.
    pub(crate) fn faults(&self, end: &Usage) -> Vec<String> {
        let mut faults = Vec::new();
        if self.descriptors != end.descriptors {
            faults.push(format!("descriptors leak: {:?} became {:?}", self.descriptors, end.descriptors));
        }
        if end.allocated > self.allocated + KEPT {
            faults.push(format!(
                "memory leaks: {} bytes became {}, and {KEPT} more are allowed",
                self.allocated, end.allocated
            ));
        }
        if let Some(peak) = peak().filter(|peak| *peak > self.allocated + PEAK) {
            faults.push(format!(
                "memory grew from {} bytes to {peak}; {PEAK} more are allowed",
                self.allocated
            ));
        }
        if let (Some(start), Some(end)) = (self.resident, end.resident)
            && end > start + RESIDENT
        {
            faults.push(format!(
                "resident memory grew from {start} bytes to {end}; {RESIDENT} more are allowed"
            ));
        }
        faults
    }

    /// Describes the change from this usage to `end`.
    pub(crate) fn until(self, end: Usage) -> impl fmt::Display {
        let number = |n: Option<usize>| n.map_or("?".to_owned(), |n| n.to_string());
        format!(
            "descriptors {} -> {}; allocated {} -> {} bytes, peak {}; resident {} -> {} bytes",
            number(self.descriptors),
            number(end.descriptors),
            self.allocated,
            end.allocated,
            number(peak()),
            number(self.resident),
            number(end.resident),
        )
    }
}

/// Returns the maximum number of bytes that were ever allocated.
fn peak() -> Option<usize> {
    Some(ALLOCATOR.max_allocated())
}

/// Returns how many descriptors are open, including the one used to count them.
pub(crate) fn descriptors() -> Option<usize> {
    ["/proc/self/fd", "/dev/fd"].iter().find_map(|path| Some(std::fs::read_dir(path).ok()?.count()))
}

fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * KIB)
}
