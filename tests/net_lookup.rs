//! `lookup_host`: names are looked up outside the runtime's thread, and addresses are parsed at once.
#![cfg(feature = "net")]

mod net_support;

use futures::FutureExt;
use mainspring::net::{ToSocketAddrs, lookup_host};
use mainspring::time::{Instant, sleep, timeout};
use mainspring::{Builder, spawn};
use net_support::run;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The socket addresses that an address stands for, without a look-up: a thread could not have answered yet, each time.
fn at_once(host: impl ToSocketAddrs) -> Vec<SocketAddr> {
    lookup_host(host).now_or_never().expect("it waits for somebody").unwrap().collect()
}

#[test]
fn an_address_is_its_own_answer_without_a_thread_and_without_a_runtime() {
    let expected: SocketAddr = "127.0.0.1:80".parse().unwrap();
    for _ in 0..100 {
        assert_eq!(at_once("127.0.0.1:80"), [expected]);
        assert_eq!(at_once(("127.0.0.1".to_owned(), 80)), [expected]);
        assert_eq!(at_once((Ipv4Addr::LOCALHOST, 80)), [expected]);
        assert_eq!(at_once("[::1]:80"), ["[::1]:80".parse().unwrap()]);
        assert_eq!(at_once(&[expected, expected][..]), [expected, expected]);
    }
}

#[test]
fn localhost_is_this_machine() {
    run(async {
        for host in [("localhost", 80), ("localhost", 0)] {
            let addrs: Vec<_> = lookup_host(host).await.unwrap().collect();
            assert!(!addrs.is_empty());
            assert!(addrs.iter().all(|addr| addr.ip().is_loopback() && addr.port() == host.1), "{addrs:?}");
        }
        // From another task, and kept here: the addresses borrow nothing.
        let addrs = spawn(async { lookup_host("localhost:80".to_owned()).await.unwrap() });
        assert!(addrs.await.unwrap().next().is_some());
    });
}

#[test]
fn an_unknown_name_is_the_resolvers_error() {
    run(async {
        // No name has a part of more than 63 bytes, so no server needs to be asked.
        let nowhere = format!("{}.invalid", "n".repeat(64));
        let error = lookup_host((nowhere, 80)).await.map(drop).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
        for nonsense in ["", "localhost", "localhost:high", "localhost:65536"] {
            let error = lookup_host(nonsense).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{nonsense}: {error}");
        }
        let nothing: &[SocketAddr] = &[];
        assert_eq!(lookup_host(nothing).await.map(drop).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_lookup_that_is_dropped_takes_nothing_from_the_next() {
    run(async {
        for _ in 0..20 {
            {
                let mut dropped = pin!(lookup_host("localhost:80"));
                // It may be ready already, if the thread was quick.
                let _ = futures::poll!(dropped.as_mut());
            }
            assert!(lookup_host("localhost:80").await.unwrap().next().is_some());
        }
    });
}

#[test]
fn virtual_time_waits_for_an_answer() {
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let addrs = timeout(Duration::from_nanos(1), lookup_host("localhost:80")).await;
        assert!(addrs.expect("no name takes any virtual time").unwrap().next().is_some());
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

#[test]
fn virtual_time_goes_on_after_a_lookup_was_dropped() {
    let runtime = Builder::new().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        {
            let mut dropped = pin!(lookup_host("localhost:80"));
            let _ = futures::poll!(dropped.as_mut());
        }
        // The look-up's thread still holds time, until the resolver has answered.
        sleep(HOUR).await;
        assert_eq!(start.elapsed(), HOUR);
    });
}
