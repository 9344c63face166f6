//! Recorded runs of the elector: input and output as lines of JSON, replayed. `UPDATE_TRACES=1` rewrites the outputs.

use std::fs;
use std::path::Path;

use mooring_agent_core::trace::replay;

#[test]
fn recorded_runs_replay() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let recorded = fs::read_to_string(&path).unwrap();
        let now = replay(&recorded).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if std::env::var_os("UPDATE_TRACES").is_some() {
            fs::write(&path, &now).unwrap();
            replayed += 1;
            continue;
        }
        let differs = recorded.lines().zip(now.lines()).position(|(a, b)| a != b);
        assert!(recorded == now, "{} differs from line {:?} on", path.display(), differs.map(|n| n + 1));
        replayed += 1;
    }
    assert!(replayed > 0, "no trace in {}", folder.display());
}
