//! What the virtual clock costs a runtime that never pauses: nothing that could be told from nothing.
