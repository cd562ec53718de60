//! Children that a task waits for: their status, their pipes, and kills.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::thread;

use futures::future::{Either, join_all, select};
use futures::{AsyncReadExt, AsyncWriteExt};
use mainspring::process::{Command, Stdio};
use mainspring::task::consume_budget;
use mainspring::{block_on, sleep, spawn, timeout};
use rustix::process::{Pid, Signal, kill_process_group};

use super::common::{LONG, ms, orphan, watchdog};
use super::{cat, endless};

const SIGKILL: i32 = 9;

#[test]
fn the_status_is_that_of_the_child() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        for code in [0, 1, 7, 255] {
            let mut command = Command::new("sh");
            command.args(["-c", "exit $CODE"]).env("CODE", code.to_string());
            assert_eq!(command.status().await.unwrap().code(), Some(code));
            // A command can be used again.
            let mut child = command.spawn().unwrap();
            assert!(child.id().is_some());
            assert_eq!(child.wait().await.unwrap().code(), Some(code));
            // The status stays; the number is free for other processes.
            assert_eq!(child.wait().await.unwrap().code(), Some(code));
            assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(code));
            assert_eq!(child.id(), None);
            // Killing a child that has ended is no error, and hits no other process.
            child.kill().await.unwrap();
        }
    });
}

#[test]
fn the_end_of_a_child_is_noticed_beside_a_branch_that_uses_the_budget_up() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let greedy = async {
            loop {
                consume_budget().await;
            }
        };
        // The first poll closes its input, and finds it running.
        let mut child = cat();
        let either = timeout(LONG / 10, select(Box::pin(greedy), Box::pin(child.wait()))).await;
        assert!(matches!(either, Ok(Either::Right((Ok(_), _)))), "it was missed");
    });
}

#[test]
fn the_methods_of_stds_command_do_what_they_do_there() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut command = Command::new("sh");
        let script = "pwd; echo $0 $A $B $C; exec env";
        command.env_clear().envs([("A", "1"), ("B", "2")]).env("C", "3").env_remove("B");
        command.arg0("shell").args(["-c", script]).arg("name").current_dir("/").process_group(0);
        let output = command.output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("/\nname 1 3\n") && !text.contains("PATH"), "{text}");
        assert_eq!(command.as_std().get_program(), "sh");

        let mut theirs = std::process::Command::new("echo");
        theirs.arg("theirs");
        let mut ours = Command::from(theirs);
        ours.as_std_mut().arg("and ours");
        assert_eq!(ours.output().await.unwrap().stdout, b"theirs and ours\n");
        assert!(ours.into_std().stdout(std::process::Stdio::null()).status().unwrap().success());
    });
}

#[test]
fn output_pipes_what_the_program_has_not_set_and_nothing_else() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo out; echo err >&2"]);
        // Standard input is empty, otherwise this would never end if the tests have a terminal.
        let output = command.output().await.unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        command.stdout(Stdio::null());
        let output = command.output().await.unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b""[..], &b"err\n"[..]));
        // The settings that `output` makes are not kept.
        let mut child = Command::new("true");
        assert!(child.output().await.unwrap().status.success());
        let mut child = child.spawn().unwrap();
        assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn a_megabyte_goes_through_a_child_both_ways_at_once() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let sent: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let copy = sent.clone();
        let mut child = cat();
        let mut stdin = child.stdin.take().unwrap();
        let writing = spawn(async move {
            stdin.write_all(&copy).await.unwrap();
            stdin.close().await.unwrap();
            assert_eq!(stdin.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
            stdin.close().await.unwrap();
        });
        let mut received = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == sent);
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn both_outputs_are_read_at_once_however_much_there_is() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        // Each more than a pipe holds; a child whose output is not read would wait forever.
        let script = "head -c 300000 /dev/zero >&2; head -c 500000 /dev/zero; head -c 300000 /dev/zero >&2";
        let output = Command::new("sh").args(["-c", script]).output().await.unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (500_000, 600_000));
    });
}

#[test]
fn a_wait_closes_standard_input_and_a_look_does_not() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut child = cat();
        assert!(child.try_wait().unwrap().is_none() && child.stdin.is_some());
        sleep(ms(5)).await;
        assert!(child.try_wait().unwrap().is_none(), "its input is open");
        assert!(child.wait().await.unwrap().success());
        assert!(child.stdin.is_none());
        assert!(cat().wait_with_output().await.unwrap().status.success());
    });
}

#[test]
fn a_write_to_a_child_that_has_gone_is_an_error() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        assert!(child.wait().await.unwrap().success());
        // A child that another test starts at this moment has all descriptors until it executes its program.
        let error = loop {
            match stdin.write_all(b"too late").await {
                Ok(()) => sleep(ms(1)).await,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_pipe_is_handed_on_to_another_child_in_blocking_mode() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut first = Command::new("sh");
        let mut first = first.args(["-c", "sleep 0.05; echo late"]).stdout(Stdio::piped()).spawn().unwrap();
        let pipe = first.stdout.take().unwrap().into_owned_fd().unwrap();
        assert!(!rustix::fs::fcntl_getfl(&pipe).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        let output = Command::new("cat").stdin(pipe).output().await.unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"late\n"[..], &b""[..]));
        assert!(first.wait().await.unwrap().success());

        let mut second = cat();
        let pipe = second.stdin.take().unwrap().into_owned_fd().unwrap();
        assert!(Command::new("echo").arg("there").stdout(pipe).status().await.unwrap().success());
        assert_eq!(second.wait_with_output().await.unwrap().stdout, b"there\n");
    });
}

#[test]
fn a_pipe_becomes_the_stream_of_another_child_as_in_tokio() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut first = Command::new("sh");
        first.args(["-c", "echo out; echo err >&2"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = first.spawn().unwrap();
        let [out, err]: [Stdio; 2] = [
            first.stdout.take().unwrap().try_into().unwrap(),
            first.stderr.take().unwrap().try_into().unwrap(),
        ];
        assert_eq!(Command::new("cat").stdin(out).output().await.unwrap().stdout, b"out\n");
        assert_eq!(Command::new("cat").stdin(err).output().await.unwrap().stdout, b"err\n");
        assert!(first.wait().await.unwrap().success());

        let mut second = cat();
        let stdin: Stdio = second.stdin.take().unwrap().try_into().unwrap();
        assert!(Command::new("echo").arg("there").stdout(stdin).status().await.unwrap().success());
        assert_eq!(second.wait_with_output().await.unwrap().stdout, b"there\n");

        let mut third = cat();
        let mut stdin = third.stdin.take().unwrap();
        stdin.close().await.unwrap();
        assert_eq!(Stdio::try_from(stdin).unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(third.wait().await.unwrap().success());
    });
}

#[test]
fn a_timeout_around_a_wait_loses_nothing() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut child = cat();
        let stdin = child.stdin.take();
        for _ in 0..20 {
            assert!(timeout(ms(1), child.wait()).await.is_err());
        }
        drop(stdin);
        assert!(timeout(LONG, child.wait()).await.unwrap().unwrap().success());
    });
}

#[test]
fn a_child_that_is_killed_says_so() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut child = endless(&mut Command::new("sleep")).spawn().unwrap();
        child.kill().await.unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(SIGKILL));
        let mut child = endless(&mut Command::new("sleep")).spawn().unwrap();
        child.start_kill().unwrap();
        child.start_kill().unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(SIGKILL));
    });
}

#[test]
fn a_kill_of_its_group_ends_what_a_child_has_started_too() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut shell = Command::new("sh");
        let script = "sleep 3600 & echo started; wait";
        let mut child = shell.args(["-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let group = child.id().and_then(|id| Pid::from_raw(id as i32)).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 8]).await.unwrap();
        // A kill of the child leaves the other one, which has the pipe.
        child.start_kill().unwrap();
        let mut rest = Vec::new();
        assert!(timeout(ms(50), stdout.read_to_end(&mut rest)).await.is_err());
        // The child's end was not seen, so the number is still its group's.
        kill_process_group(group, Signal::KILL).unwrap();
        assert_eq!(timeout(LONG, stdout.read_to_end(&mut rest)).await.unwrap().unwrap(), 0);
        assert_eq!(child.wait().await.unwrap().signal(), Some(SIGKILL));
    });
}

/// Its number may belong to another process by then.
#[test]
fn a_child_whose_status_another_part_of_the_process_has_taken_is_not_killed() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let mut child = Command::new("true").kill_on_drop(true).spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(child.id().unwrap() as i32);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()).unwrap().unwrap();
        child.start_kill().unwrap();
        assert_eq!(child.id(), None, "it is known that it has ended");
        let error = child.wait().await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::CHILD.raw_os_error()));
        assert!(child.try_wait().is_err());
    });
}

#[test]
fn children_that_run_at_once_end_each_for_itself() {
    let _watchdog = watchdog(LONG);
    block_on(async {
        let children: Vec<_> = (0..40u32)
            .map(|n| {
                let mut command = Command::new("sh");
                let script = format!("sleep 0.0{}; exit {n}", 40 - n);
                let mut child = command.args(["-c", &script]).spawn().unwrap();
                spawn(async move { child.wait().await.unwrap().code() })
            })
            .collect();
        for (n, code) in join_all(children).await.into_iter().enumerate() {
            assert_eq!(code.unwrap(), Some(n as i32));
        }
    });
}

#[test]
fn what_cannot_be_started_is_an_error_and_nothing_is_started_without_a_runtime() {
    let _watchdog = watchdog(LONG);
    let there = std::env::temp_dir().join(format!("mainspring-process-{}", std::process::id()));
    let refused = Command::new("touch").arg(&there).spawn().unwrap_err();
    assert!(refused.to_string().starts_with("no Mainspring runtime"), "{refused}");
    block_on(async {
        let missing = "/a program/that is not there";
        assert_eq!(Command::new(missing).spawn().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(Command::new(missing).status().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(Command::new(missing).output().await.unwrap_err().kind(), ErrorKind::NotFound);
        sleep(ms(50)).await;
    });
    assert!(!there.exists());
}

#[test]
fn a_child_outlives_its_runtime_as_an_error_and_can_be_looked_at() {
    let _watchdog = watchdog(LONG);
    let mut child = orphan(cat);
    block_on(async {
        let stdin = child.stdin.take();
        assert_eq!(child.wait().await.unwrap_err().kind(), ErrorKind::Other);
        assert!(child.id().is_some());
        drop(stdin);
        while child.try_wait().unwrap().is_none() {
            sleep(ms(1)).await;
        }
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn a_child_may_be_awaited_and_dropped_on_another_thread() {
    fn is_send_and_sync<T: Send + Sync + Unpin>(_: &T) {}
    let _watchdog = watchdog(LONG);
    block_on(async {
        let (mut one, other) =
            (cat(), endless(&mut Command::new("sleep")).kill_on_drop(true).spawn().unwrap());
        is_send_and_sync(&one);
        let elsewhere = thread::spawn(move || {
            drop(other);
            futures::executor::block_on(one.wait()).unwrap()
        });
        // The events come from this runtime.
        while !elsewhere.is_finished() {
            sleep(ms(1)).await;
        }
        assert!(elsewhere.join().unwrap().success());
    });
}
