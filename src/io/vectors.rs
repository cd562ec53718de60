//! Reading into several buffers at once, and writing from several.

use std::ops::Deref;

/// Returns the place of the first buffer that is not empty; 0 if there is none.
///
/// The system takes the first buffers of a long list only, on Linux 1,024. If these were empty, a read would seem to be at the end
/// of the stream, and a write to have no room. So a system call is given the list from here on.
pub(crate) fn first_nonempty(bufs: &[impl Deref<Target = [u8]>]) -> usize {
    bufs.iter().position(|buf| !buf.is_empty()).unwrap_or(0)
}
