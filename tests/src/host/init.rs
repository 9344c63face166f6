//! Process 1 of a host: makes the host's mounts, starts programs, sends signals, reaps, and ends with the lab.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, sethostname};

use super::protocol::{Answer, Op, Request};
use crate::clock;

/// The hidden argument that makes the lab's program an init: `lab __init HOST HOSTS-FILE`.
pub const WORD: &str = "__init";

/// Runs as the init of a host until the lab closes the control socket, which is standard input.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("init: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> io::Result<()> {
    // The host ends when the thread of the lab that made it ends. Closing the socket has the same effect; the first of
    // the two events counts.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let [name, hosts_file] = args else {
        return say(&mut control, &Answer::Failed { id: 0, error: "usage: __init HOST HOSTS-FILE".into() });
    };
    if let Err(error) = set_up(name, Path::new(hosts_file)) {
        return say(&mut control, &Answer::Failed { id: 0, error: error.to_string() });
    }
    say(&mut control, &Answer::Ready { at: clock::now().as_nanos() })?;
    serve(control)
}

/// The host's own name, `/run`, `/proc`, `/sys`, and name resolution without a name server.
fn set_up(name: &str, hosts_file: &Path) -> io::Result<()> {
    let named = |what: &'static str| move |errno: Errno| io::Error::other(format!("{what}: {errno}"));
    let none = None::<&str>;
    // Not through /proc/sys: only the machine's root may write there.
    sethostname(name).map_err(named("set the host's name"))?;
    // A link such as /etc/resolv.conf -> /run/... is followed before /run is covered.
    let resolv = fs::canonicalize("/etc/resolv.conf").ok();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(named("make mounts private"))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), flags, Some("mode=0755")).map_err(named("mount /run"))?;
    // A sandbox that masks parts of /proc or /sys forbids fresh mounts of them in a user namespace. The old mounts
    // work: they only show more processes, or the machine's interfaces, to a person who looks.
    for kind in ["proc", "sysfs"] {
        let target = if kind == "proc" { "/proc" } else { "/sys" };
        if let Err(errno) = mount(Some(kind), target, Some(kind), flags, none) {
            eprintln!("init: {target} stays the machine's: {errno}");
        }
    }
    let bind = |from: &Path, to: &Path| mount(Some(from), to, none, MsFlags::MS_BIND, none);
    bind(hosts_file, Path::new("/etc/hosts")).map_err(named("bind /etc/hosts"))?;
    match resolv {
        // A host cannot reach the machine's resolver: with an empty file the answer is quick.
        Some(path) if path.starts_with("/run") => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(path, "")
        }
        Some(path) => {
            fs::write("/run/resolv.conf", "")?;
            bind(Path::new("/run/resolv.conf"), &path).map_err(named("bind /etc/resolv.conf"))
        }
        None => Ok(()),
    }
}

fn serve(control: UnixStream) -> io::Result<()> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    // Programs do not inherit this: the standard library empties the mask of what it starts.
    mask.thread_block()?;
    let children = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut out = control.try_clone()?;
    let mut lines = BufReader::new(control);
    loop {
        let mut fds =
            [PollFd::new(lines.get_ref().as_fd(), PollFlags::POLLIN), PollFd::new(children.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        let [asked, died] = [fds[0].any().unwrap_or(true), fds[1].any().unwrap_or(true)];
        if died {
            while children.read_signal()?.is_some() {}
            reap(&mut out)?;
        }
        if asked && !requests(&mut lines, &mut out)? {
            return Ok(());
        }
    }
}

/// Answers the requests that have arrived; false when the lab is gone. The lab writes whole lines, so reading to the
/// end of a line does not wait for long.
fn requests(lines: &mut BufReader<UnixStream>, out: &mut UnixStream) -> io::Result<bool> {
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(request),
            Err(error) => Answer::Failed { id: 0, error: format!("request {line:?}: {error}") },
        };
        say(out, &answer)?;
        if lines.buffer().is_empty() {
            return Ok(true);
        }
    }
}

fn answer(Request { id, op }: Request) -> Answer {
    let sent = |pid, number| {
        Signal::try_from(number).and_then(|signal| kill(Pid::from_raw(pid), signal)).map_err(io::Error::from)
    };
    let done = match op {
        Op::Start { argv, env, log } => match start(&argv, env, &log) {
            Ok(pid) => {
                return Answer::Started { id, pid, at: clock::now().as_nanos() };
            }
            Err(error) => Err(error),
        },
        Op::Signal { pid, signal } => sent(pid, signal),
        // -1 from process 1: every process of this PID namespace except process 1. If there is none, there is nothing
        // to do.
        Op::SignalAll { signal } => match sent(-1, signal) {
            Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(()),
            other => other,
        },
    };
    match done {
        Ok(()) => Answer::Done { id, at: clock::now().as_nanos() },
        Err(error) => Answer::Failed { id, error: error.to_string() },
    }
}

fn start(argv: &[String], env: Vec<(String, String)>, log: &Path) -> io::Result<i32> {
    let [program, rest @ ..] = argv else {
        return Err(io::Error::other("an empty command"));
    };
    let output = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(program);
    command.args(rest).env_clear().envs(
        ["PATH", "HOME", "RUST_BACKTRACE"]
            .into_iter()
            .filter_map(|key| std::env::var_os(key).map(|value| (key, value))),
    );
    command.envs(env).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
    if let Some(folder) = log.parent() {
        command.current_dir(folder);
    }
    let child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("execute {program}: {error}")))?;
    i32::try_from(child.id()).map_err(io::Error::other)
}

/// Reports every process that ended: programs of ours, and orphans that process 1 inherits.
fn reap(out: &mut UnixStream) -> io::Result<()> {
    loop {
        let (pid, how) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, 0)) => (pid, "ended well".to_owned()),
            Ok(WaitStatus::Exited(pid, code)) => (pid, format!("ended with code {code}")),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, format!("killed by {signal}")),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        say(out, &Answer::Exited { pid: pid.as_raw(), how, at: clock::now().as_nanos() })?;
    }
}

fn say(out: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    out.write_all(&line)
}
