//! The frames that the switch drops: nftables in its bridge. Each change replaces the whole table in one transaction.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::Command;

use super::Error;
use crate::assets;
use crate::host::Netns;
use crate::segment::GATEWAY_NAME;

/// One rule by which the switch drops frames.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Frames from one port to another, or from or to the gateway.
    Cut {
        /// The port they come from, or the gateway.
        from: String,
        /// The port they go to, or the gateway.
        to: String,
    },
    /// A share of the frames from and to a port.
    Loss {
        /// The port.
        port: String,
        /// 1 to 100.
        percent: u8,
    },
    /// ARP and NDP from one port to another. Other frames pass.
    CutNeighbour {
        /// The port they come from.
        from: String,
        /// The port they go to.
        to: String,
    },
    /// ARP from a port whose sender protocol address is none of these, in requests and in replies.
    ArpSender {
        /// The port.
        port: String,
        /// The addresses that are let through; none: all ARP of the port is dropped.
        allowed: BTreeSet<Ipv4Addr>,
    },
    /// NDP from a port.
    Ndp {
        /// The port.
        port: String,
    },
    /// ARP requests to everybody: [`super::suppress`] passes on those that it does not answer itself.
    ArpBroadcasts,
}

/// Solicitations and advertisements of neighbours.
const NDP: &str = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }";

/// Makes the switch drop the frames of these rules, and no others.
pub fn apply(switch: &Netns, rules: &BTreeSet<Rule>) -> Result<(), Error> {
    let [mut arrived, mut forward, mut input, mut output] = [const { Vec::<String>::new() }; 4];
    for rule in rules {
        match rule {
            Rule::Cut { from, to } if from == GATEWAY_NAME => output.push(format!("oifname \"{to}\" drop")),
            Rule::Cut { from, to } if to == GATEWAY_NAME => input.push(format!("iifname \"{from}\" drop")),
            Rule::Cut { from, to } => forward.push(format!("iifname \"{from}\" oifname \"{to}\" drop")),
            Rule::Loss { port, percent } => {
                // nft refuses a comparison that is always true.
                let some =
                    if *percent < 100 { format!("numgen random mod 100 < {percent} drop") } else { "drop".into() };
                forward.extend([format!("iifname \"{port}\" {some}"), format!("oifname \"{port}\" {some}")]);
                input.push(format!("iifname \"{port}\" {some}"));
                output.push(format!("oifname \"{port}\" {some}"));
            }
            Rule::CutNeighbour { from, to } => {
                let cut = format!("iifname \"{from}\" oifname \"{to}\"");
                forward.extend([format!("{cut} ether type arp drop"), format!("{cut} {NDP} drop")]);
            }
            Rule::Ndp { port } => arrived.push(format!("iifname \"{port}\" {NDP} drop")),
            Rule::ArpSender { port, allowed } => {
                let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
                // nft knows no empty set.
                let others = match &*allowed {
                    [] => String::new(),
                    some => format!("arp saddr ip != {{ {} }} ", some.join(", ")),
                };
                arrived.push(format!("iifname \"{port}\" ether type arp {others}drop"));
            }
            Rule::ArpBroadcasts => {
                arrived.push("ether daddr ff:ff:ff:ff:ff:ff arp operation request drop".to_owned());
            }
        }
    }
    let chain = |hook: &str, rules: &[String]| {
        let rules = rules.join("\n    ");
        format!("  chain {hook} {{\n    type filter hook {hook} priority 0; policy accept;\n    {rules}\n  }}\n")
    };
    let table = "bridge mooring";
    let chains = [("prerouting", arrived), ("forward", forward), ("input", input), ("output", output)];
    let chains: String = chains.iter().map(|(hook, rules)| chain(hook, rules)).collect();
    nft(switch, format!("table {table}\ndelete table {table}\ntable {table} {{\n{chains}}}\n"))
}

/// Runs nft inside the namespace; nft applies all of the rules or none.
pub fn nft(netns: &Netns, rules: String) -> Result<(), Error> {
    let mut command = Command::new(assets::ensure("nft", "nftables")?);
    command.args(["-f", "-"]);
    let output = netns.output(command, rules.clone())?;
    if output.status.success() {
        return Ok(());
    }
    let detail = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Nft { place: netns.name().to_owned(), detail, rules })
}
