//! The command line: the request, and the commands that answer at once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use mooring_api::crds;
use mooring_common::print::complain;
use mooring_common::settings::flags::{flag, given};
use mooring_common::settings::summary;

use crate::api::random;
use crate::settings::spec::SETTINGS;
use crate::settings::{Host, Loaded, Settings, SettingsErrors};

const ABOUT: &str = "Hands out the addresses that Cluster API's IPAddressClaims and Services of type LoadBalancer ask for, out of pools in the cluster.";

const EXAMPLES: &str = "\
Times are numbers with a unit: 500ms, 2s, 1m30s.
Every setting --some-name can be given as MOORING_ALLOCATOR_SOME_NAME instead.

Examples:
  mooring-allocator                                           in a pod, with its service account
  mooring-allocator --kubeconfig ~/.kube/config --leader-election off
  mooring-allocator crds | kubectl apply --server-side -f -   the pools' CRDs
  mooring-allocator crds --standalone                         claims and addresses too, for clusters without Cluster API";

/// The request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the allocator, with these flags.
    Run(BTreeMap<String, String>),
    /// Print or write the CRDs.
    Crds {
        /// Which of them: the folder of `manifests/crds` that has them.
        part: &'static str,
        /// A folder to write files to.
        folder: Option<PathBuf>,
    },
    /// Print the version.
    Version,
}

/// Reads the command line.
///
/// # Errors
/// clap's, which print themselves; `--help` is one of them.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Action, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    Ok(match matches.subcommand() {
        Some(("crds", crds)) => Action::Crds {
            part: match (crds.get_flag("standalone"), crds.get_flag("metal3")) {
                (true, _) => "standalone",
                (_, true) => "metal3",
                _ => "",
            },
            folder: crds.get_one::<String>("output").map(PathBuf::from),
        },
        Some(("version", _)) => Action::Version,
        Some((_, run)) => Action::Run(flags(run)),
        None => Action::Run(flags(&matches)),
    })
}

/// The command line as clap knows it.
#[must_use]
pub fn command() -> Command {
    let settings =
        |command: Command| command.args(SETTINGS.iter().map(|spec| flag(spec, usize::MAX))).after_help(EXAMPLES);
    let run = settings(Command::new("run")).about("Be the allocator (the default)");
    let standalone = Arg::new("standalone").long("standalone").action(ArgAction::SetTrue).help(
        "The CRDs of IPAddressClaim and IPAddress instead: only for clusters without Cluster API, which brings its own",
    );
    let metal3 = Arg::new("metal3")
        .long("metal3")
        .action(ArgAction::SetTrue)
        .conflicts_with("standalone")
        .help("The CRD of IPPool instead: only for clusters without metal3, which brings its own");
    let output = Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FOLDER")
        .help("Write a file for each into this folder");
    let crds = Command::new("crds").about("Print the CRDs of the pools").args([standalone, metal3, output]);
    let version = Command::new("version").about("Print the version");
    settings(Command::new("mooring-allocator"))
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .subcommands([run, crds, version])
}

/// The settings that were given.
fn flags(matches: &ArgMatches) -> BTreeMap<String, String> {
    given(matches, SETTINGS.iter().map(|spec| spec.name))
}

/// The environment: what is no UTF-8 is shown as such, and belongs to no setting.
fn environment() -> BTreeMap<String, String> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Runs the request.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parse(args) {
        Ok(Action::Run(given)) => match Settings::load(&given, &environment(), &Host::read(), random()) {
            Ok(loaded) => run(loaded),
            Err(errors) => refuse(&errors),
        },
        Ok(Action::Crds { part, folder }) => match crd_files(part, folder.as_deref()) {
            Ok(text) => said(&text),
            Err(error) => failed(&format!("mooring-allocator: {error:#}"), 1),
        },
        Ok(Action::Version) => said(concat!("mooring-allocator ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(error) => {
            // If printing fails too, nothing is left to do.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// The CRDs, written into a folder or as one text.
fn crd_files(part: &str, folder: Option<&Path>) -> anyhow::Result<String> {
    let files = crds::files()?;
    let parts = files.iter().map(|file| (file, file.path.rsplit_once('/').unwrap_or(("", &file.path))));
    let mut text = String::new();
    for (file, (_, name)) in parts.filter(|(_, (of, _))| *of == part) {
        match folder {
            None => {
                text.push_str("---\n");
                text.push_str(&file.text);
            }
            Some(folder) => {
                let path = folder.join(name);
                std::fs::write(&path, &file.text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
                text.push_str(&path.display().to_string());
                text.push('\n');
            }
        }
    }
    Ok(text)
}

fn said(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn failed(text: &str, code: u8) -> ExitCode {
    complain(text);
    ExitCode::from(code)
}

fn refuse(errors: &SettingsErrors) -> ExitCode {
    failed(&format!("mooring-allocator: {errors}"), 2)
}

fn run(loaded: Loaded) -> ExitCode {
    let Loaded { settings, warnings, effective } = loaded;
    let _log = match mooring_common::log::init("mooring_allocator", settings.log) {
        Ok(log) => log,
        Err(error) => return failed(&format!("mooring-allocator: no thread for the log: {error}"), 1),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        settings = summary(&effective, SETTINGS),
        "mooring-allocator starts; all other settings have their defaults"
    );
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result =
        runtime.map_err(anyhow::Error::from).and_then(|runtime| Ok(runtime.block_on(crate::service::run(settings))?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "mooring-allocator ends");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Action {
        parse(std::iter::once("mooring-allocator").chain(args.iter().copied()).map(OsString::from)).unwrap()
    }

    #[test]
    fn clap_finds_nothing_wrong_with_the_table() {
        command().debug_assert();
    }

    #[test]
    fn run_is_the_default() {
        let given: BTreeMap<_, _> = [("leader-election".to_owned(), "false".to_owned())].into();
        assert_eq!(parsed(&["--leader-election=false"]), Action::Run(given.clone()));
        assert_eq!(parsed(&["run", "--leader-election", "false"]), Action::Run(given));
        assert_eq!(parsed(&[]), Action::Run(BTreeMap::new()));
    }

    #[test]
    fn crds_are_those_of_the_manifests() {
        assert_eq!(parsed(&["crds", "--standalone"]), Action::Crds { part: "standalone", folder: None });
        assert_eq!(parsed(&["crds", "--metal3"]), Action::Crds { part: "metal3", folder: None });
        assert!(crd_files("metal3", None).unwrap().contains("ippools.ipam.metal3.io"));
        let pools = crd_files("", None).unwrap();
        assert!(pools.contains("inclusterippools") && !pools.contains("ipaddressclaims.ipam"));
        assert!(!pools.contains("ipam.metal3.io"));
        let folder = std::env::temp_dir().join(format!("mooring-crds-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = crd_files("standalone", Some(&folder)).unwrap();
        assert_eq!(names.lines().count(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
