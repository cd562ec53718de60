//! What to start, and how.

use super::Child;
use crate::coop;
use crate::runtime::{Handle, context};
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, ExitStatus, Output, Stdio};

/// A process to be started: [`std::process::Command`], with children that can be awaited.
///
/// The methods that it shares with std's command do what the methods of the same name do there. What else std offers can be
/// set through [`as_std_mut`](Self::as_std_mut), or beforehand: a `Command` can also be made from one of std's.
///
/// Starting a process blocks the thread for as long as the system takes to create the process and to find its program.
///
/// # Examples
///
/// ```
/// use mainspring::process::Command;
///
/// mainspring::block_on(async {
///     let status = Command::new("sh").args(["-c", "exit $CODE"]).env("CODE", "7").status().await?;
///     assert_eq!(status.code(), Some(7));
///     Ok::<_, std::io::Error>(())
/// })
/// # .unwrap();
/// ```
#[derive(Debug)]
pub struct Command {
    std: process::Command,
    kill_on_drop: bool,
    /// Which of the standard streams the program has set.
    said: [bool; 3],
}

/// Methods that do what std's methods do.
macro_rules! as_std {
    ($($(#[$doc:meta])* $name:ident $([$($generics:tt)*])? ($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        pub fn $name $(<$($generics)*>)? (&mut self, $($arg: $type),*) -> &mut Command {
            self.std.$name($($arg),*);
            self
        }
    )*};
}

impl Command {
    /// Makes a command that starts this program, which is searched for in `PATH` if it is a bare name.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        process::Command::new(program).into()
    }

    as_std! {
        /// Adds an argument.
        arg(arg: impl AsRef<OsStr>);
        /// Adds arguments.
        args[I: IntoIterator<Item = S>, S: AsRef<OsStr>](args: I);
        /// Sets a variable of the child's environment.
        env(key: impl AsRef<OsStr>, value: impl AsRef<OsStr>);
        /// Sets variables of the child's environment.
        envs[I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>](vars: I);
        /// Removes a variable from the child's environment.
        env_remove(key: impl AsRef<OsStr>);
        /// Removes all variables from the child's environment.
        env_clear();
        /// Sets the directory in which the child starts.
        current_dir(dir: impl AsRef<Path>);
        /// Sets the name by which the child is called: its argument number zero.
        arg0(arg: impl AsRef<OsStr>);
        /// Sets the child's user.
        uid(id: u32);
        /// Sets the child's group.
        gid(id: u32);
        /// Sets the child's process group; zero makes a new one, which Ctrl-C in the terminal does not reach.
        process_group(group: i32);
    }

    /// Sets the child's standard input. By default it is this process's; for [`output`](Self::output) there is none.
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Command {
        self.said[0] = true;
        self.std.stdin(stdin);
        self
    }

    /// Sets the child's standard output. By default it is this process's; for [`output`](Self::output) it is a pipe.
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Command {
        self.said[1] = true;
        self.std.stdout(stdout);
        self
    }

    /// Sets the child's standard error. By default it is this process's; for [`output`](Self::output) it is a pipe.
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Command {
        self.said[2] = true;
        self.std.stderr(stderr);
        self
    }

    /// Sets whether a child is killed by SIGKILL when its [`Child`], or the future of its [`status`](Self::status) or
    /// [`output`](Self::output), is dropped before the child ends. By default the child runs on.
    ///
    /// Processes that the child itself has started are not killed; [how to kill them,
    /// too](super#with-what-it-has-started).
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::process::Command;
    /// use mainspring::timeout;
    /// use std::time::Duration;
    ///
    /// mainspring::block_on(async {
    ///     let mut sleep = Command::new("sleep");
    ///     let status = sleep.arg("3600").kill_on_drop(true).status();
    ///     // The timeout drops the future, and that ends the child.
    ///     assert!(timeout(Duration::from_millis(10), status).await.is_err());
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn kill_on_drop(&mut self, kill_on_drop: bool) -> &mut Command {
        self.kill_on_drop = kill_on_drop;
        self
    }

    /// Returns std's command.
    pub fn as_std(&self) -> &process::Command {
        &self.std
    }

    /// Returns std's command, to change it. [`output`](Self::output) does not know of standard streams that are set this way:
    /// it sets them itself, and afterwards they are this process's, as by default.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.std
    }

    /// Returns std's command. The setting of [`kill_on_drop`](Self::kill_on_drop) is lost.
    pub fn into_std(self) -> process::Command {
        self.std
    }

    /// Starts a child, in the runtime that this thread is in.
    ///
    /// # Errors
    ///
    /// The system's, such as [`NotFound`](io::ErrorKind::NotFound) if there is no such program; one of kind
    /// [`Other`](io::ErrorKind::Other) if there is no runtime on this thread. If it fails because a pipe cannot be watched,
    /// for example for lack of memory, the child was already started, and is killed.
    ///
    /// # Examples
    ///
    /// ```
    /// use mainspring::process::Command;
    ///
    /// mainspring::block_on(async {
    ///     let mut child = Command::new("true").spawn()?;
    ///     println!("the child is number {}", child.id().unwrap());
    ///     child.wait().await
    /// })
    /// # .unwrap();
    /// ```
    pub fn spawn(&mut self) -> io::Result<Child> {
        // This comes first: without a runtime nothing is started.
        let runtime = context::with(Handle::clone)?;
        Child::new(self.std.spawn()?, self.kill_on_drop, runtime)
    }

    /// Starts a child at once, and returns a future that waits until it has ended.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn) and [`Child::wait`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the child runs on, unless [`kill_on_drop`](Self::kill_on_drop) was set.
    ///
    /// # Examples
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     assert!(!mainspring::process::Command::new("false").status().await?.success());
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> + Send + use<> {
        let child = self.spawn();
        async move {
            let mut child = coop::charge_error(child).await?;
            // These pipes cannot be read by anyone.
            drop((child.stdout.take(), child.stderr.take()));
            child.wait().await
        }
    }

    /// Starts a child at once, and returns a future that reads everything the child writes and waits until the child has
    /// ended.
    ///
    /// The output is piped and the input is empty, unless the program has set them by [`stdin`](Self::stdin) and the like.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn) and [`Child::wait_with_output`].
    ///
    /// # Cancel safety
    ///
    /// The output that was read is lost if the future is dropped; the child runs on, unless
    /// [`kill_on_drop`](Self::kill_on_drop) was set.
    ///
    /// # Examples
    ///
    /// ```
    /// mainspring::block_on(async {
    ///     let output = mainspring::process::Command::new("uname").output().await?;
    ///     println!("this is {}", String::from_utf8_lossy(&output.stdout));
    ///     Ok::<_, std::io::Error>(())
    /// })
    /// # .unwrap();
    /// ```
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> + Send + use<> {
        self.default_streams(Stdio::null, Stdio::piped);
        let child = self.spawn();
        self.default_streams(Stdio::inherit, Stdio::inherit);
        async move { coop::charge_error(child).await?.wait_with_output().await }
    }

    /// Sets the streams that the program has not set.
    fn default_streams(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) {
        let [stdin, stdout, stderr] = self.said;
        if !stdin {
            self.std.stdin(input());
        }
        if !stdout {
            self.std.stdout(output());
        }
        if !stderr {
            self.std.stderr(output());
        }
    }
}

/// [`output`](Command::output) does not know of standard streams that were set before: it sets them itself, and afterwards
/// they are this process's, as by default. Streams that are set on the new command are kept.
impl From<process::Command> for Command {
    fn from(std: process::Command) -> Command {
        Command { std, kill_on_drop: false, said: [false; 3] }
    }
}
