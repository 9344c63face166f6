//! A run as a drawing: a row a node (which VIPs it has on its interfaces, what its core takes it for), the faults, and whether
//! the client was answered by all VIPs.

use std::fmt::Write;

use crate::clock::{MS, Nanos, SECOND};
use crate::fault::Fault;
use crate::subject::Subject;
use crate::world::World;

const LEFT: u64 = 70;
const WIDTH: u64 = 1_400;
/// Of a node's row: its role, and some space.
const ROLE: u64 = 19;
const FAULT: u64 = 13;

struct Drawing {
    end: Nanos,
    out: String,
}

impl Drawing {
    fn x(&self, at: Nanos) -> u64 {
        LEFT + at.min(self.end) / MS * WIDTH / (self.end / MS).max(1)
    }

    /// A bar from one moment to another; what it means is told when the mouse rests on it.
    fn bar(&mut self, from: Nanos, to: Nanos, (y, height): (u64, u64), class: &str, title: &str) {
        let (x, x2) = (self.x(from), self.x(to));
        let width = (x2 - x).max(1);
        let _ = writeln!(
            self.out,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" class="{class}"><title>{title}: {} to {} ms</title></rect>"#,
            from / MS,
            to / MS
        );
    }

    fn text(&mut self, x: u64, y: u64, text: &str) {
        let _ = writeln!(self.out, r#"<text x="{x}" y="{y}">{text}</text>"#);
    }
}

const STYLE: &str = "text{font:11px sans-serif;fill:#333}.vip{fill:#2a7f62}.holding,.live{fill:#7bc8a4}.lapsed,.left-over{fill:#e0b04a}\
.provisional{fill:#d9822b}.leaving{fill:#8fb8de}.following{fill:#e8e8e8}.none{fill:#fff}.fault{fill:#c96b6b}.cut{fill:#7a4b8f}\
.yes{fill:#2a7f62}.no{fill:#c0392b}.violation{stroke:#c0392b;stroke-width:2}.second{stroke:#ddd}";

impl<S: Subject> World<'_, S> {
    /// Draws it; nothing if nothing was recorded.
    #[must_use]
    pub fn draw(&self) -> String {
        let Some(record) = &self.log else { return String::new() };
        let nodes = self.hosts.len() as u64;
        let faults = self.plan.faults.len() as u64;
        // Few VIPs have a bar each that is easy to see; many have thin ones.
        let bar = if self.vips > 3 { 3 } else { 9 };
        let row = ROLE + (self.vips as u64 * bar).max(27);
        let height = 40 + nodes * row + 30 + faults * FAULT + 30;
        let mut d = Drawing { end: self.now.max(SECOND), out: String::new() };
        let _ = writeln!(
            d.out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="{height}" viewBox="0 0 {} {height}"><style>{STYLE}</style>"#,
            LEFT + WIDTH + 20,
            LEFT + WIDTH + 20
        );
        for ten in 0..=d.end / SECOND / 10 {
            let x = d.x(ten * 10 * SECOND);
            let _ = writeln!(d.out, r#"<line x1="{x}" y1="24" x2="{x}" y2="{height}" class="second"/>"#);
            d.text(x + 2, 20, &format!("{} s", ten * 10));
        }
        for host in 0..self.hosts.len() {
            let y = 32 + host as u64 * row;
            d.text(4, y + 16, &self.names[host]);
            let roles: Vec<_> = record.roles.iter().filter(|(_, of, _)| *of == host).collect();
            for (n, (at, _, role)) in roles.iter().enumerate() {
                let to = roles.get(n + 1).map_or(d.end, |(next, ..)| *next);
                d.bar(*at, to, (y, 14), role, &format!("{} {role}", self.names[host]));
            }
            for vip in 0..self.vips {
                let mut since = None;
                let of = record.carries.iter().filter(|(_, h, v, _)| (*h, *v) == (host, vip));
                for (at, _, _, there) in of.chain([&(d.end, host, vip, false)]) {
                    if *there {
                        since = since.or(Some(*at));
                    } else if let Some(from) = since.take() {
                        d.bar(
                            from,
                            *at,
                            (y + 16 + bar * vip as u64, bar - 1),
                            "vip",
                            &format!("VIP {vip} on {}", self.names[host]),
                        );
                    }
                }
            }
        }
        let y = 40 + nodes * row;
        d.text(4, y + 10, "client");
        for (n, (at, served)) in record.served.iter().enumerate() {
            let to = record.served.get(n + 1).map_or(d.end, |(next, _)| *next);
            d.bar(
                *at,
                to,
                (y, 12),
                if *served { "yes" } else { "no" },
                if *served { "answered" } else { "not answered" },
            );
        }
        for (n, planned) in self.plan.faults.iter().enumerate().filter(|(_, p)| p.at <= self.now) {
            let y = y + 30 + n as u64 * FAULT;
            let class =
                if matches!(planned.fault, Fault::Partition(..) | Fault::LinkDown(..)) { "cut" } else { "fault" };
            d.bar(planned.at, planned.at + planned.lasts.max(50 * MS), (y, FAULT - 3), class, &planned.to_string());
            let x = d.x(planned.at + planned.lasts) + 4;
            d.text(x.min(LEFT + WIDTH - 300), y + 9, &format!("{n}: {planned}"));
        }
        if let Some(violation) = &self.violation {
            let x = d.x(violation.at);
            let _ = writeln!(d.out, r#"<line x1="{x}" y1="24" x2="{x}" y2="{height}" class="violation"/>"#);
            d.text(LEFT, height - 8, &format!("{}: {}", violation.rule, violation.text.replace(['<', '&'], " ")));
        }
        d.out.push_str("</svg>\n");
        d.out
    }
}
