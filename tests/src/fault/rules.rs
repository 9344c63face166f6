//! The frames that the switch drops: nftables in its bridge. Each change replaces the whole table in one transaction.

use std::collections::BTreeSet;
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
}

/// Makes the switch drop the frames of these rules, and no others.
pub fn apply(switch: &Netns, rules: &BTreeSet<Rule>) -> Result<(), Error> {
    let [mut forward, mut input, mut output] = [const { Vec::<String>::new() }; 3];
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
        }
    }
    let chain = |hook: &str, rules: &[String]| {
        let rules = rules.join("\n    ");
        format!("  chain {hook} {{\n    type filter hook {hook} priority 0; policy accept;\n    {rules}\n  }}\n")
    };
    let table = "bridge mooring";
    let chains = [chain("forward", &forward), chain("input", &input), chain("output", &output)].concat();
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
