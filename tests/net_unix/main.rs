//! Unix sockets: streams, datagrams, descriptors that are sent along with bytes, and cases in which Linux does
//! not report when to go on.
#![cfg(all(feature = "net", unix))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../net_support/mod.rs"]
mod net_support;

#[cfg(target_os = "linux")]
mod along;
mod calls;
mod datagrams;
#[cfg(target_os = "linux")]
mod linux;
mod runtimes;
mod streams;

use std::path::{Path, PathBuf};

/// A path for a socket; removes what exists there.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let place = Place(std::env::temp_dir().join(format!("mainspring-{name}-{}", std::process::id())));
        let _ = std::fs::remove_file(&place.0);
        place
    }
}

impl AsRef<Path> for Place {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
