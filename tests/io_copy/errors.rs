//! Errors: which direction failed, and where in it; impossible counts are errors, too.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::Poll;

use crate::{Fake, endless, silent, sink};
use mainspring::block_on;
use mainspring::io::{Direction, copy_bidirectional};

#[test]
fn an_error_says_which_direction_failed_in_what() {
    let reset = || Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
    block_on(async {
        let mut good = Fake { read: silent, write: sink };
        let mut bad = Fake { read: |_: &mut [u8]| reset(), write: sink };
        let error = copy_bidirectional(&mut bad, &mut good).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::AToB), true));
        let error = copy_bidirectional(&mut good, &mut bad).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::BToA), true));
        assert_eq!(error.io_error().unwrap().kind(), ErrorKind::ConnectionReset);
        assert_eq!(io::Error::from(error).kind(), ErrorKind::ConnectionReset);

        let mut talks = Fake { read: endless, write: sink };
        let mut deaf = Fake { read: silent, write: |_: &[u8]| reset() };
        let error = copy_bidirectional(&mut talks, &mut deaf).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::AToB), false));
        assert!(error.to_string().starts_with("a to b: cannot write: "), "{error}");
        let error = copy_bidirectional(&mut deaf, &mut talks).await.unwrap_err();
        assert_eq!((error.direction(), error.is_read()), (Some(Direction::BToA), false));
    });
}

#[test]
fn counts_that_cannot_be_true_are_errors_and_no_panic() {
    block_on(async {
        let mut talks = Fake { read: endless, write: sink };
        let mut full = Fake { read: silent, write: |_: &[u8]| Poll::Ready(Ok(0)) };
        let error = copy_bidirectional(&mut talks, &mut full).await.unwrap_err();
        assert_eq!((error.kind(), error.copied()), (ErrorKind::WriteZero, (0, 0)));
        let mut boasts = Fake { read: silent, write: |b: &[u8]| Poll::Ready(Ok(b.len() + 1)) };
        let error = copy_bidirectional(&mut talks, &mut boasts).await.unwrap_err();
        assert_eq!((error.kind(), error.is_read()), (ErrorKind::InvalidData, false));
        let mut liar = Fake { read: |b: &mut [u8]| Poll::Ready(Ok(b.len() + 1)), write: sink };
        let error = copy_bidirectional(&mut liar, &mut talks).await.unwrap_err();
        assert_eq!((error.kind(), error.is_read()), (ErrorKind::InvalidData, true));
        // If it is polled again after an error, it does not panic either.
        let mut copy = pin!(copy_bidirectional(&mut liar, &mut talks));
        for _ in 0..3 {
            assert!(copy.as_mut().await.is_err());
        }
    });
}
