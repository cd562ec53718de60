//! A meter of CPU time for tasks that do one operation after another: it counts the operations of all tasks together.

use std::cell::Cell;

use super::gate::Gate;
use crate::measure::cpu;

/// The number of measured operations per warm-up operation.
const WARM_UP: usize = 4;

/// Measures a fixed number of operations, after a number of warm-up operations. All work that is done in that time
/// counts, whatever does it. So work that a runtime puts off and does now and then is included.
pub(super) struct Meter {
    measured: usize,
    /// How many operations remain: first of the warm-up, then of the measurement.
    left: Cell<usize>,
    /// The CPU clock when the measured operations began.
    begin: Cell<Option<f64>>,
    /// The CPU time of a measured operation.
    cost: Cell<f64>,
    over: Gate,
}

impl Meter {
    pub(super) fn new(measured: usize) -> Meter {
        let left = Cell::new(measured.div_ceil(WARM_UP));
        Meter { measured, left, begin: Cell::new(None), cost: Cell::new(0.0), over: Gate::new(1) }
    }

    /// Counts an operation that has been done. Returns whether there is another to do.
    pub(super) fn count(&self) -> bool {
        let left = self.left.get();
        if left > 1 {
            self.left.set(left - 1);
            return true;
        }
        // The tasks do not all stop at once: operations that other tasks do after the last one are not counted.
        if left == 0 {
            return false;
        }
        match self.begin.get() {
            None => {
                self.left.set(self.measured);
                self.begin.set(Some(cpu()));
                true
            }
            Some(begin) => {
                self.cost.set((cpu() - begin) / self.measured as f64);
                self.left.set(0);
                self.over.pass();
                false
            }
        }
    }

    /// Waits for the last operation. Returns the CPU time of one operation, in nanoseconds.
    pub(super) async fn cost(&self) -> f64 {
        self.over.all_passed().await;
        self.cost.get()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn it_measures_what_is_done_after_the_warm_up_and_tells_everybody_that_it_is_over() {
        let meter = Meter::new(8);
        let busy = |nanos: f64| {
            let start = cpu();
            while cpu() - start < nanos {}
        };
        // Two operations are the warm-up, and take longer than all the rest.
        busy(20e6);
        assert!(meter.count());
        busy(20e6);
        let begin = cpu();
        assert!(meter.count());
        for _ in 0..7 {
            busy(1e6);
            assert!(meter.count());
            assert_eq!(meter.cost().now_or_never(), None);
        }
        busy(1e6);
        assert!(!meter.count());
        let most = (cpu() - begin) / 8.0;
        busy(20e6);
        assert!(!meter.count() && !meter.count());
        let cost = meter.cost().now_or_never().expect("it is over");
        // Other tests of this process use the CPU at the same time.
        assert!(1e6 <= cost && cost <= most, "{cost} ns, where {most} have passed");
    }
}
