//! The command line: its parsing ([`arguments`]), the commands that answer at once, and the agent's start.

mod arguments;
mod print;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use mooring_common::print::complain;
use mooring_common::settings::summary;

pub use self::arguments::command;
use self::arguments::not_here;
pub use self::print::config;
use self::print::{fail, said, translation, warn};
use crate::cluster_status::{self, read::Place};
use crate::manifest::command::{self as manifests, Translated, What};
use crate::manifest::pod::{IMAGE, Kept, Kind, Options};
use crate::ops::status_client;
use crate::settings::spec::{self, SETTINGS};
use crate::settings::{Given, Host, Loaded, Settings, SettingsErrors};

/// The output format of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tables, for eyes.
    Table,
    /// JSON, for programs.
    Json,
}

/// The requested command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the agent.
    Run(Given),
    /// Print the effective settings.
    Config(Given, Output),
    /// Print what becomes of each setting of a manifest.
    Translate {
        /// The manifest.
        from: PathBuf,
        /// Settings that count before those of the manifest.
        given: Given,
        /// The output format.
        output: Output,
    },
    /// Print a manifest.
    Manifest {
        /// What to print; None: what the file has.
        what: Option<What>,
        /// The manifest that is translated.
        from: Option<PathBuf>,
        /// The settings.
        given: Given,
        /// What it says besides.
        options: Options,
    },
    /// Print the status of the agent behind this socket.
    Status {
        /// The agent's status socket.
        socket: PathBuf,
        /// The output format.
        output: Output,
        /// Repeat the output.
        watch: bool,
    },
    /// Print the state of the whole cluster.
    Cluster {
        /// Where to look.
        place: Place,
        /// The output format.
        output: Output,
        /// Repeat the output.
        watch: bool,
    },
    /// Print the version.
    Version,
    /// Say why this cannot be done.
    Refuse(String),
}

/// Reads the command line; `env` gives the default of the status socket.
///
/// # Errors
/// clap's errors, which print themselves; `--help` is one of them.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Action, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    Ok(match matches.subcommand() {
        Some(("config", config)) => match from(config) {
            Some(from) => Action::Translate { from, given: Given::from_matches(config), output: output(config) },
            None => Action::Config(Given::from_matches(config), output(config)),
        },
        Some(("manifest", manifest)) => Action::Manifest {
            what: manifest.get_one::<String>("kind").and_then(|kind| kind_of(kind)),
            from: from(manifest),
            given: Given::from_matches(manifest),
            options: Options {
                image: manifest.get_one::<String>("image").cloned().unwrap_or_else(|| IMAGE.to_owned()),
                in_cluster: manifest.get_flag("in-cluster"),
                taint: manifest.get_flag("taint"),
                kept: Kept::default(),
            },
        },
        Some(("status", status)) if status.get_flag("cluster") => {
            Action::Cluster { place: place(status, &env), output: output(status), watch: status.get_flag("watch") }
        }
        Some(("status", status)) => {
            let said = |name: &'static str| {
                let flag = status.get_one::<String>(name).cloned();
                flag.or_else(|| spec::find(name).and_then(|s| env(&s.env())).filter(|v| !v.is_empty()))
            };
            let run_dir =
                said("run-dir").or_else(|| spec::find("run-dir").map(|s| s.default.to_owned())).unwrap_or_default();
            let socket = said("status-socket").map_or_else(|| Path::new(&run_dir).join("agent.sock"), PathBuf::from);
            Action::Status { socket, output: output(status), watch: status.get_flag("watch") }
        }
        Some(("version", _)) => Action::Version,
        Some((name, _)) if not_here(name).is_some() => {
            let instead = not_here(name).unwrap_or_default();
            Action::Refuse(format!("kube-vip's subcommand {name} does not exist here: {instead}"))
        }
        Some((_, run)) => Action::Run(Given::from_matches(run)),
        None => Action::Run(Given::from_matches(&matches)),
    })
}

fn from(matches: &ArgMatches) -> Option<PathBuf> {
    matches.get_one::<String>("from").map(PathBuf::from)
}

/// As `kubectl` does: the flag, `KUBECONFIG`, the user's own file; then that of a control-plane node, and a pod's own account.
fn place(matches: &ArgMatches, env: impl Fn(&str) -> Option<String>) -> Place {
    let named = matches.get_one::<String>("kubeconfig").cloned();
    let named = named
        .or_else(|| env("KUBECONFIG").and_then(|all| all.split(':').find(|one| !one.is_empty()).map(str::to_owned)));
    let users = env("HOME").map(|home| Path::new(&home).join(".kube/config")).filter(|path| path.is_file());
    let nodes = spec::find("kubeconfig").map(|spec| PathBuf::from(spec.default)).filter(|path| path.is_file());
    let said = |name: &'static str| {
        let default = || spec::find(name).map(|spec| spec.default.to_owned());
        matches.get_one::<String>(name).cloned().or_else(default).unwrap_or_default()
    };
    Place {
        kubeconfig: named.map(PathBuf::from).or(users).or(nodes),
        namespace: said("namespace"),
        lease: said("lease-name"),
        sessions: said("sessions-namespace"),
    }
}

fn kind_of(kind: &str) -> Option<What> {
    match kind {
        "static-pod" | "pod" => Some(What::Pod(Kind::StaticPod)),
        "daemonset" => Some(What::Pod(Kind::DaemonSet)),
        "rbac" => Some(What::Rbac),
        _ => None,
    }
}

fn output(matches: &ArgMatches) -> Output {
    if matches.get_one::<String>("output").is_some_and(|o| o == "json") { Output::Json } else { Output::Table }
}

/// Runs the requested command.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let action = match parse(args, |name| std::env::var(name).ok()) {
        Ok(action) => action,
        Err(error) => {
            // If even the message cannot be printed, there is nothing left to do.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match action {
        Action::Run(given) => load(&given).map_or_else(|errors| fail(&errors), run),
        Action::Config(given, output) => load(&given).map_or_else(
            |errors| fail(&errors),
            |loaded| {
                warn(&loaded);
                said(&config(&loaded.effective, output))
            },
        ),
        Action::Translate { from, given, output } => translate(&from, &given, output),
        Action::Manifest { what, from, given, options } => manifest(what, from.as_deref(), &given, options),
        Action::Status { socket, output, watch } => status_client::print(&socket, output, watch),
        Action::Cluster { place, output, watch } => cluster_status::print(&place, output, watch),
        Action::Version => said(concat!("mooring-agent ", env!("CARGO_PKG_VERSION"))),
        Action::Refuse(text) => {
            complain(&format!("mooring-agent: {text}"));
            ExitCode::from(2)
        }
    }
}

fn load(given: &Given) -> Result<Loaded, SettingsErrors> {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    Settings::load(given, std::env::vars_os().map(|(name, value)| (text(name), text(value))), &Host::read())
}

/// Prints what becomes of each setting. Fails if Mooring would not start with them.
fn translate(from: &Path, given: &Given, output: Output) -> ExitCode {
    let translated = match Translated::read(from) {
        Ok(translated) => translated,
        Err(error) => return fail(&error),
    };
    let said = said(&translation(&translated.rows(given), output));
    match translated.load(given) {
        Ok(loaded) => {
            warn(&loaded);
            said
        }
        Err(error) => fail(&error),
    }
}

fn manifest(what: Option<What>, from: Option<&Path>, given: &Given, options: Options) -> ExitCode {
    let translated = from.map(Translated::read).transpose();
    let made = translated.and_then(|from| manifests::manifest(what, given, from.as_ref(), options));
    match made {
        Ok((text, loaded)) => {
            warn(&loaded);
            said(text.trim_end())
        }
        Err(error) => fail(&error),
    }
}

fn run(loaded: Loaded) -> ExitCode {
    let _log = match mooring_common::log::init("mooring_agent", loaded.settings.log) {
        Ok(log) => log,
        Err(error) => return fail(&format!("no thread for the log: {error}")),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        settings = summary(&loaded.effective, SETTINGS),
        "mooring-agent starts; all other settings have their defaults, which `mooring-agent config` prints"
    );
    for warning in &loaded.warnings {
        tracing::warn!(setting = %warning.setting, "{}", warning.text);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| Ok(runtime.block_on(crate::run::run(loaded.settings))?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "mooring-agent ends");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
