//! Loading memory into the cache before it is used.

/// Asks the processor to load what `at` points to before it is used: at most two cache lines.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address; SSE is part
        // of every x86_64.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>());
            _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(size_of::<T>().saturating_sub(1)));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
