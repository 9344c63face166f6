//! scratch
use mooring_sim::{many, plan::Plan, run, world::World};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "m" {
        let from: u64 = a[2].parse().unwrap();
        let n: u64 = a[3].parse().unwrap();
        let t = std::time::Instant::now();
        std::panic::set_hook(Box::new(|_| {}));
        let s = many::many(
            &many::Order {
                from,
                seeds: n,
                jobs: 2,
                nodes: None,
                #[cfg(feature = "planted")]
                bug: std::env::var("BUG")
                    .ok()
                    .and_then(|b| mooring_core::planted::Bug::ALL.into_iter().find(|x| format!("{x:?}") == b)),
                failures: a.get(4).map_or(1000000, |x| x.parse().unwrap()),
            },
            &|_, _| {},
        );
        let dt = t.elapsed().as_secs_f64();
        println!(
            "{} runs {} faults {} steps/run {} s/run {} failed {:.0}/s",
            s.runs,
            s.faults,
            s.steps / s.runs,
            s.seconds / s.runs,
            s.failed.len(),
            s.runs as f64 / dt
        );
        let mut by = std::collections::BTreeMap::<String, Vec<(u64, String)>>::new();
        for f in &s.failed {
            let v = f.violation.clone().unwrap();
            by.entry(v.rule.to_string()).or_default().push((f.seed, v.text));
        }
        for (k, v) in by {
            println!("{k}: {}", v.len());
            for (s, t) in v.iter().take(6) {
                println!("   {s}: {t}");
            }
        }
    } else {
        let seed: u64 = a[2].parse().unwrap();
        let mut plan = Plan::of(seed, None);
        if let Some(k) = a.get(3).filter(|k| !k.starts_with('v')) {
            let k: Vec<usize> = k.split(',').filter(|x| !x.is_empty()).map(|x| x.parse().unwrap()).collect();
            plan = plan.only(&k);
        }
        println!("{:?}", plan.settings);
        let mut w = World::new(&plan);
        w.log = Some(Default::default());
        w.verbose = a.last().unwrap() == "v";
        let o = run::finish(&mut w);
        if let Some(k) = a.iter().find(|x| x.ends_with(".svg")) {
            std::fs::write(k, w.draw()).unwrap();
        }
        print!("{}", w.log.unwrap().text());
        println!("{o:?}");
    }
}
