//! Clients that do not read what the server writes, in virtual time.

use std::net::SocketAddr;

use crate::common::{HOUR, LONG, paused, watchdog};
use crate::{LIMITS, connect, serve};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::time::{Instant, timeout};

/// Whether the server has counted this many connections that ended in an error.
async fn has_counted_errors(address: SocketAddr, errors: u64) -> bool {
    let mut stream = connect(address).await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page.contains(&format!("\nhttp_connection_errors_total {errors}\n"))
}

#[test]
fn a_client_that_reads_no_answer_is_cut_off_at_the_limit_and_counted() {
    let _watchdog = watchdog(LONG);
    paused().block_on(async {
        let (address, _end, _server) = serve().await;
        for request in ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "HEAD / HTTP/1.1\r\nhost: x\r\n\r\n"] {
            let mut stream = connect(address).await;
            let start = Instant::now();
            // It ends when the server has cut the connection off.
            let ask = async { while stream.write_all(request.repeat(1000).as_bytes()).await.is_ok() {} };
            timeout(HOUR, ask).await.expect("the connection is cut off");
            let held = start.elapsed();
            assert!(held >= LIMITS.answer && held < 2 * LIMITS.answer, "it is held for {held:?}");
        }
        assert!(has_counted_errors(address, 2).await);
    });
}
