//! The command line as clap knows it.

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, Command};
use mooring_common::settings::flags::flag;

use crate::manifest::pod::IMAGE;
use crate::settings::kube_vip::ENTRIES;
use crate::settings::spec::{SETTINGS, Spec};

const ABOUT: &str = "Holds virtual IP addresses (VIPs) of a Kubernetes cluster on the nodes that should have them.";

const EXAMPLES: &str = "\
Times are numbers with a unit: 500ms, 2s, 1m30s.

Every setting --some-name can be given as MOORING_SOME_NAME instead. Where the meaning is the same, kube-vip's environment
names and flags are understood as well, after ours. `mooring-agent config` shows what came out and why.

Examples:
  mooring-agent --address 192.0.2.10                          one VIP on the interface of the default route
  mooring-agent --address 192.0.2.10,2001:db8::10 --interface eth0
  mooring-agent --address api.example.com --dns-mode dual     follow a name
  mooring-agent config --address 192.0.2.10 -o json           check settings, change nothing
  mooring-agent status --watch                                see it work";

const MANIFEST_EXAMPLES: &str = "\
Examples:
  mooring-agent manifest static-pod --address 192.0.2.10 > /etc/kubernetes/manifests/mooring-agent.yaml
  mooring-agent manifest daemonset --services on              VIPs of Services on the workers
  mooring-agent manifest rbac --services on                   the rights for them
  mooring-agent manifest --from kube-vip.yaml                 the same as kube-vip's manifest, by Mooring";

/// kube-vip's subcommands that have no counterpart here, and what to do instead.
const NOT_HERE: &[(&str, &str)] = &[
    ("kubeadm", "use `mooring-agent manifest static-pod`, or change only the image in a manifest of kube-vip"),
    ("sample", "see `mooring-agent --help`"),
    (
        "start",
        "it is kube-vip 0.3's, and its file is not read: give what the file says as settings to `mooring-agent run`",
    ),
    ("service", "use `mooring-agent run --services on`"),
];

/// What to do instead of this subcommand of kube-vip's.
pub(super) fn not_here(name: &str) -> Option<&'static str> {
    NOT_HERE.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}

/// The command line as clap knows it.
#[must_use]
pub fn command() -> Command {
    let settings = |command: Command| command.args(SETTINGS.iter().map(ours)).args(theirs()).after_help(EXAMPLES);
    let output = Arg::new("output").short('o').long("output").value_name("FORMAT").default_value("table");
    let output = output.value_parser(PossibleValuesParser::new(["table", "json"])).help("How to print");
    let own = |name| SETTINGS.iter().filter(move |spec| spec.name == name).map(ours);
    let watch = Arg::new("watch").short('w').long("watch").action(ArgAction::SetTrue).help("Print again every second");
    let run = settings(Command::new("run")).about("Be the agent (the default)").alias("manager");
    let from = Arg::new("from").long("from").value_name("FILE");
    let config = settings(Command::new("config")).about("Print each effective setting and where it came from");
    let config = config.arg(from.clone().help(
        "Say instead what becomes of each setting of this static pod, DaemonSet, or values of kube-vip's Helm chart, or of those in another object, as a KubeadmControlPlane (-: standard input)",
    ));
    let manifest = settings(Command::new("manifest")).after_help(MANIFEST_EXAMPLES).args(manifest_args(from));
    let manifest = manifest.about("Print a static pod, a DaemonSet, or the service account with its roles");
    let status = Command::new("status")
        .about("Print what the agent on this host is doing, or all of a cluster")
        .args([output.clone(), watch]);
    let cluster = Arg::new("cluster").long("cluster").action(ArgAction::SetTrue);
    let cluster = cluster.help("The VIPs, holders and nodes of the whole cluster, by a kubeconfig, from any machine");
    let kubeconfig = Arg::new("kubeconfig").long("kubeconfig").value_name("FILE").requires("cluster");
    let kubeconfig = kubeconfig.help("With --cluster: the kubeconfig [default: KUBECONFIG, or ~/.kube/config]");
    let status = status.args(own("status-socket")).args(own("run-dir")).args([cluster, kubeconfig]);
    let status = status.args(own("namespace")).args(own("lease-name")).args(own("sessions-namespace"));
    let version = Command::new("version").about("Print the version");
    settings(Command::new("mooring-agent"))
        .about(ABOUT)
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .subcommands([run, config.arg(output), status, manifest, version])
        .subcommands(NOT_HERE.iter().map(|(name, _)| refused(name)))
}

fn manifest_args(from: Arg) -> [Arg; 5] {
    let kinds = [
        PossibleValue::new("static-pod").alias("pod").help("For a control-plane node's /etc/kubernetes/manifests"),
        PossibleValue::new("daemonset")
            .help("For control-plane nodes if there is an address, else for all other nodes"),
        PossibleValue::new("rbac").help("What a DaemonSet with the same settings needs"),
    ];
    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    [
        Arg::new("kind").value_name("KIND").value_parser(PossibleValuesParser::new(kinds)).help("What to print"),
        from.help("Translate this static pod, DaemonSet, or values of kube-vip's Helm chart; or a KubeadmControlPlane, Secret or other object that has one (-: standard input). Settings given beside it count first"),
        Arg::new("image").long("image").value_name("IMAGE").default_value(IMAGE).value_parser(NonEmptyStringValueParser::new()).help("The image of the agent"),
        switch("in-cluster").alias("inCluster").help("Use the pod's service account [default in a daemonset]"),
        switch("taint").help("A daemonset for control-plane nodes, whatever VIPs it has"),
    ]
}

/// A subcommand with any arguments.
fn refused(name: &'static str) -> Command {
    let rest = Arg::new("rest").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new(name).hide(true).disable_help_flag(true).arg(rest)
}

fn ours(spec: &'static Spec) -> Arg {
    let arg = flag(spec, 100);
    match spec.name {
        "namespace" => arg.short('n'),
        // kube-vip's flag of that name may stand without a value.
        "services" => arg.num_args(0..=1).default_missing_value("on"),
        _ => arg,
    }
}

/// kube-vip's flags, understood and not shown.
fn theirs() -> impl Iterator<Item = Arg> {
    ENTRIES.iter().filter(|entry| !entry.flag.is_empty()).map(|entry| {
        let arg = Arg::new(entry.flag).long(entry.flag).hide(true).allow_negative_numbers(true);
        if entry.boolean { arg.num_args(0..=1).require_equals(true).default_missing_value("true") } else { arg }
    })
}
