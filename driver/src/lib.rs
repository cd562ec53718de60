//! Exact, cheap timers for any async runtime.
