//! The limit of a copy that is polled when its task has no budget left.
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::future::LocalBoxFuture;
use futures::stream::FuturesUnordered;
use mainspring::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use mainspring::task::{consume_budget, has_budget_remaining};
use mainspring::{sleep, timeout};

/// Has one message, and takes nothing: as a pipe in memory whose reader has stopped.
struct Stalled(Option<&'static [u8]>);
impl AsyncRead for Stalled {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.0.take() {
            Some(bytes) => {
                buf[..bytes.len()].copy_from_slice(bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            None => Poll::Pending,
        }
    }
}
impl AsyncWrite for Stalled {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[test]
fn a_limit_is_not_lost_when_the_task_has_no_budget_left() {
    let runtime = mainspring::Builder::new().start_paused(true).build().unwrap();
    let ended = runtime.block_on(async {
        let task = mainspring::spawn(async {
            let (mut a, mut b) = (Stalled(Some(b"to b")), Stalled(Some(b"to a")));
            let mut both: FuturesUnordered<LocalBoxFuture<'_, &str>> = FuturesUnordered::new();
            both.push(Box::pin(async {
                // Due when the limit is: takes all that the poll may take.
                sleep(Duration::from_secs(60)).await;
                while has_budget_remaining() {
                    consume_budget().await;
                }
                sleep(Duration::from_secs(1)).await;
                "other"
            }));
            both.push(Box::pin(async {
                let error =
                    copy_bidirectional(&mut a, &mut b).idle(Duration::from_secs(60)).await.unwrap_err();
                assert!(error.is_idle());
                "copy"
            }));
            let mut ended = vec![];
            while let Some(who) = both.next().await {
                ended.push(who);
            }
            ended
        });
        timeout(Duration::from_secs(3600), task).await
    });
    let mut ended = ended.expect("the copy has a limit of a minute").unwrap();
    ended.sort_unstable();
    assert_eq!(ended, ["copy", "other"]);
}
