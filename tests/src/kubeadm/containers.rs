//! What containerd runs on a machine.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::machine::Machine;
use super::run::run;
use crate::observe::now;

/// A command on a machine.
const COMMAND: Duration = Duration::from_secs(20);

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its name in containerd.
    pub id: String,
    /// Its first process, as the machine sees it.
    pub pid: u32,
}

/// The running container of that name in a pod: `mooring-agent`, `etcd`.
///
/// # Errors
/// containerd does not answer.
pub async fn running(machine: &Machine, name: &str) -> Result<Option<Running>> {
    let filter =
        format!("labels.\"io.kubernetes.container.name\"=={name},labels.\"io.cri-containerd.kind\"==container");
    let list = machine.ctr("containers").args(["containers", "list", "--quiet", &filter]);
    let all = run(&machine.host, list, COMMAND).await?.text;
    let tasks = run(&machine.host, machine.ctr("tasks").args(["tasks", "list"]), COMMAND).await?.text;
    Ok(find(&all, &tasks))
}

/// Of the containers in `all` the one that `tasks` has as running: its ID, its PID, its state.
fn find(all: &str, tasks: &str) -> Option<Running> {
    let ids: Vec<_> = all.lines().map(str::trim).collect();
    tasks.lines().find_map(|line| {
        let [id, pid, state]: [&str; 3] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let pid = pid.parse().ok()?;
        (state == "RUNNING" && ids.contains(&id)).then(|| Running { id: id.to_owned(), pid })
    })
}

/// Sends a signal to the container of that name: `SIGSTOP`.
///
/// # Errors
/// None runs, or containerd refuses.
pub async fn signal(machine: &Machine, name: &str, signal: &str) -> Result<()> {
    let found = running(machine, name).await?;
    let found = found.with_context(|| format!("containerd on {} runs no {name}", machine.host.name()))?;
    let kill = machine.ctr("signal").args(["tasks", "kill", "--signal", signal, &found.id]);
    run(&machine.host, kill, COMMAND).await.map(drop)
}

/// Waits until a container of that name runs, or until none does.
///
/// # Errors
/// It is not so within `limit`.
pub async fn until(machine: &Machine, name: &str, wanted: bool, limit: Duration) -> Result<()> {
    let deadline = now() + limit;
    while running(machine, name).await?.is_some() != wanted {
        if now() > deadline {
            let state = if wanted { "does not run" } else { "still runs" };
            bail!("{name} on {} {state} after {} s", machine.host.name(), limit.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_one_of_several_is_found() {
        let tasks =
            "TASK    PID     STATUS    \nold     12      STOPPED\nother   13      RUNNING\nnew     14      RUNNING\n";
        assert_eq!(find("old\nnew\n", tasks), Some(Running { id: "new".into(), pid: 14 }));
        assert_eq!(find("old\n", tasks), None);
        assert_eq!(find("", tasks), None);
    }
}
