use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;

use super::{
    Arc, Choice, Ctx, Duration, Ended, ExitCode, Outcome, Path, Round, Run, Runner, Screen, Skip, Test, Work, fs,
    output, run_all, steps,
};

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    most: AtomicUsize,
    cleaned: AtomicUsize,
}

/// Counts when it is dropped, as the lab cleans up when it is dropped.
struct Clean<'a>(&'a Shared);

impl Drop for Clean<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.cleaned.fetch_add(1, Ordering::SeqCst);
    }
}

fn enter(ctx: &Ctx<Shared>) -> Clean<'_> {
    let now = ctx.shared.running.fetch_add(1, Ordering::SeqCst) + 1;
    ctx.shared.most.fetch_max(now, Ordering::SeqCst);
    Clean(&ctx.shared)
}

fn good(ctx: &mut Ctx<Shared>) -> BoxFuture<'_, anyhow::Result<()>> {
    Box::pin(async {
        let _clean = enter(ctx);
        // Let the others begin.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        Ok(())
    })
}

fn bad(ctx: &mut Ctx<Shared>) -> BoxFuture<'_, anyhow::Result<()>> {
    Box::pin(async {
        let _clean = enter(ctx);
        ctx.note("what the test knew");
        anyhow::bail!("two owners for 3 s")
    })
}

fn panics(ctx: &mut Ctx<Shared>) -> BoxFuture<'_, anyhow::Result<()>> {
    Box::pin(async {
        let _clean = enter(ctx);
        assert_eq!(ctx.name, "", "a broken assertion");
        Ok(())
    })
}

fn hangs(ctx: &mut Ctx<Shared>) -> BoxFuture<'_, anyhow::Result<()>> {
    Box::pin(async {
        let _clean = enter(ctx);
        std::future::pending().await
    })
}

fn skips(_: &mut Ctx<Shared>) -> BoxFuture<'_, anyhow::Result<()>> {
    Box::pin(async { Err(Skip("no such kernel".into()).into()) })
}

fn test(name: &str, run: Run<Shared>) -> Test<Shared> {
    Test::new("g", name, Duration::from_secs(20), Work::Function(run))
}

fn program(script: &str) -> Test<Shared> {
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let dir = "/".into();
    let program = steps::Program { program: "sh", arguments, variables: vec![], dir, needs: None, gives_way: false };
    Test::new("g", "sh", Duration::from_secs(20), Work::Program(program))
}

async fn outcomes(tests: Vec<Test<Shared>>, jobs: usize, dir: &Path) -> (Vec<Outcome>, Arc<Shared>) {
    let shared = Arc::new(Shared::default());
    let mut ended = Screen::new(tests.len());
    run_all(tests.into(), &shared, dir, jobs, &mut ended, std::future::pending()).await;
    ended.verdict(Duration::ZERO, false);
    let mut all = ended.into_ended();
    all.sort_by(|a, b| a.title.cmp(&b.title));
    (all.into_iter().map(|e| e.outcome).collect(), shared)
}

#[tokio::test]
async fn every_end_is_told_apart_and_everything_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let tests = vec![
        test("1", good),
        test("2", bad),
        test("3", panics),
        Test { limit: Duration::from_millis(200), ..test("4", hangs) },
        test("5", skips),
    ];
    let (ended, shared) = outcomes(tests, 8, dir.path()).await;
    assert_eq!(ended[0], Outcome::Passed);
    assert_eq!(ended[1], Outcome::Failed("two owners for 3 s".into()));
    assert!(matches!(&ended[2], Outcome::Failed(why) if why.contains("a broken assertion")), "{:?}", ended[2]);
    assert_eq!(ended[3], Outcome::Failed("not done within 200ms".into()));
    assert_eq!(ended[4], Outcome::Skipped("no such kernel".into()));
    assert_eq!(shared.cleaned.load(Ordering::SeqCst), 4);
    assert_eq!(fs::read_to_string(dir.path().join("g-2/test.log")).unwrap(), "what the test knew\n");
}

#[tokio::test]
async fn no_more_than_the_jobs_and_some_alone() {
    let dir = tempfile::tempdir().unwrap();
    let many = || vec![test("1", good), test("2", good), test("3", good), test("4", good), test("5", good)];
    assert_eq!(outcomes(many(), 2, dir.path()).await.1.most.load(Ordering::SeqCst), 2);
    assert_eq!(outcomes(many(), 9, dir.path()).await.1.most.load(Ordering::SeqCst), 5);
    let alone = many().into_iter().map(Test::alone).collect();
    assert_eq!(outcomes(alone, 9, dir.path()).await.1.most.load(Ordering::SeqCst), 1);
    let [one, two, three, four] = ["1", "2", "3", "4"].map(|name| test(name, good));
    let mixed = vec![one, two.counting(), three, four.counting()];
    assert_eq!(outcomes(mixed, 9, dir.path()).await.1.most.load(Ordering::SeqCst), 1);
    let counting = many().into_iter().map(Test::counting).collect();
    assert_eq!(outcomes(counting, 9, dir.path()).await.1.most.load(Ordering::SeqCst), 5);
}

#[test]
fn what_computes_fills_in_and_what_counts_waits_for_it() {
    use super::{Beside, VecDeque, next_of};
    let place = |waiting: &[Beside], running: &[Beside]| {
        let waiting: VecDeque<_> = waiting.iter().map(|&beside| Test { beside, ..test("1", good) }).collect();
        next_of(&waiting, running, 2)
    };
    let (alone, any, computing, counting) = (Beside::Nothing, Beside::Anything, Beside::Computing, Beside::Counting);
    // Others go first.
    assert_eq!(place(&[computing, alone], &[]), Some(1));
    assert_eq!(place(&[computing, any], &[any]), Some(1));
    // Then it fills in, one at a time.
    assert_eq!(place(&[computing, any], &[any, any]), Some(0));
    assert_eq!(place(&[computing, any], &[any, any, computing]), None);
    assert_eq!(place(&[any], &[computing, any]), Some(0));
    assert_eq!(place(&[computing], &[]), Some(0));
    // Not beside what is alone or counts, and not before what is alone.
    assert_eq!(place(&[computing], &[alone]), None);
    assert_eq!(place(&[computing, alone], &[any]), None);
    assert_eq!(place(&[computing, any], &[counting]), None);
    assert_eq!(place(&[alone], &[computing]), None);
    // What counts comes when nothing computes any more.
    assert_eq!(place(&[computing, counting], &[]), Some(0));
    assert_eq!(place(&[counting], &[computing]), None);
    assert_eq!(place(&[counting], &[counting]), Some(0));
}

#[tokio::test]
async fn a_program_passes_by_its_status_and_dies_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let (ended, _) = outcomes(vec![program("echo fine")], 1, dir.path()).await;
    assert_eq!(ended, [Outcome::Passed]);
    assert_eq!(fs::read_to_string(dir.path().join("g-sh/output.log")).unwrap(), "fine\n");
    let (ended, _) = outcomes(vec![program("echo $WORD").variable("WORD", "given")], 1, dir.path()).await;
    assert_eq!(ended, [Outcome::Passed]);
    assert_eq!(fs::read_to_string(dir.path().join("g-sh/output.log")).unwrap(), "given\n");
    // Cargo has told this test of its package. Whatever it starts is told nothing of it.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let (ended, _) = outcomes(vec![program("! env | grep -E '^CARGO_(PKG|MANIFEST)_'")], 1, dir.path()).await;
    assert_eq!(ended, [Outcome::Passed]);
    let (ended, _) = outcomes(vec![program("exit 3")], 1, dir.path()).await;
    assert!(matches!(&ended[0], Outcome::Failed(why) if why.contains("exit status: 3")));

    let pids = dir.path().join("pids");
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display());
    let hanging = tokio::spawn({
        let dir = dir.path().to_owned();
        async move { outcomes(vec![program(&script)], 1, &dir).await }
    });
    while !pids.exists() {
        tokio::task::yield_now().await;
    }
    let pid: i32 = fs::read_to_string(&pids).unwrap().trim().parse().unwrap();
    hanging.abort();
    assert!(hanging.await.is_err());
    // A killed process is a zombie until somebody reaps it.
    let gone = || {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
    };
    while !gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_filter_that_names_nothing_is_an_error() {
    let runner = |tests| Runner { tests, shared: Arc::new(Shared::default()) };
    let choice = |filter: &[&str], list| Choice {
        filter: filter.iter().map(|&f| f.to_owned()).collect(),
        list,
        ..Choice::default()
    };
    let code = |code| format!("{code:?}");
    let run = async |filter: &[&str], list| {
        code(runner(vec![test("1", good), test("2", bad)]).run(&choice(filter, list)).await.unwrap())
    };
    assert_eq!(run(&["nothing"], false).await, code(ExitCode::from(2)));
    assert_eq!(run(&["g/1"], false).await, code(ExitCode::SUCCESS));
    assert_eq!(run(&[], true).await, code(ExitCode::SUCCESS));
}

#[tokio::test]
async fn an_interrupt_ends_what_runs_and_it_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(Shared::default());
    let endless = Test { limit: Duration::from_hours(1), ..test("1", hangs) };
    let stop = async {
        while shared.running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    let tests = [endless, test("2", good)];
    assert!(run_all(tests.into(), &shared, dir.path(), 1, &mut Screen::new(2), stop).await);
    assert_eq!(shared.cleaned.load(Ordering::SeqCst), 1);
}

#[test]
fn the_quick_round_is_what_its_tests_say() {
    let tests = || vec![test("long", good), test("both", good).quick(), test("short", good).only_quick()];
    let names = |quick, filter: &[&str]| {
        let filter = filter.iter().map(|&f| f.to_owned()).collect();
        let round = if quick { Round::Quick } else { Round::Whole };
        let choice = Choice { filter, round, ..Choice::default() };
        choice.of(tests()).into_iter().map(|test| test.name).collect::<Vec<_>>()
    };
    assert_eq!(names(false, &[]), ["long", "both"]);
    assert_eq!(names(true, &[]), ["both", "short"]);
    assert_eq!(names(true, &["g/s", "long"]), ["short"]);
    assert_eq!(names(false, &["short"]), [""; 0]);
}

#[test]
fn a_nightly_test_is_run_at_night_or_by_its_whole_name() {
    let tests = || vec![test("long", good).nightly(), test("long-each-time", good), test("short", good).quick()];
    let choice = |round, filter: &[&str]| Choice {
        filter: filter.iter().map(|&f| f.to_owned()).collect(),
        round,
        ..Choice::default()
    };
    let names = |round, filter: &[&str]| {
        choice(round, filter).of(tests()).into_iter().map(|test| test.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Round::Whole, &[]), ["long-each-time", "short"]);
    assert_eq!(names(Round::Quick, &[]), ["short"]);
    assert_eq!(names(Round::Nightly, &[]), ["long"]);
    assert_eq!(names(Round::Nightly, &["lo"]), ["long"]);
    assert_eq!(names(Round::Nightly, &["short"]), [""; 0]);
    // A word that is in other names as well does not start hours of work.
    assert_eq!(names(Round::Whole, &["lon"]), ["long-each-time"]);
    assert_eq!(names(Round::Whole, &["g"]), ["long-each-time", "short"]);
    for whole in ["long", "g/long"] {
        assert_eq!(names(Round::Whole, &[whole]), ["long", "long-each-time"]);
    }
    let listed = |round, filter: &[&str]| choice(round, filter).listed(&tests());
    assert_eq!(listed(Round::Whole, &[]), ["g/long-each-time", "g/short", "g/long  (nightly)"]);
    assert_eq!(listed(Round::Whole, &["lon"]), ["g/long-each-time", "g/long  (nightly)"]);
    assert_eq!(listed(Round::Quick, &[]), ["g/short"]);
    assert_eq!(listed(Round::Nightly, &[]), ["g/long"]);
}

/// What is nightly has a smaller form that each commit has to pass.
#[test]
fn sweeps_try_the_seeds_that_are_asked_for() {
    let sweep = super::sweeps::Sweep { seeds: 100, from: 7_000 };
    let all = super::sweeps::all::<()>(Path::new("/"), sweep);
    assert!(all.iter().all(|test| test.rounds == super::Rounds::Nightly));
    for test in all.iter().filter(|test| test.name.starts_with("sweep-")) {
        let Work::Program(program) = &test.work else { panic!("{}", test.name) };
        let variables = program.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = program.arguments.iter().cloned().chain(variables).collect();
        let told = words.join(" ");
        assert!(told.contains("--from 7000") || told.contains("SIM_FIRST=7000"), "{told}");
        let seeds = told.split(' ').find_map(|word| word.strip_prefix("SIM_SEEDS="));
        let seeds = seeds.or_else(|| told.split("--seeds ").nth(1)?.split(' ').next());
        assert!(seeds.unwrap().parse::<u64>().unwrap() <= sweep.seeds, "{told}");
    }
}

#[test]
fn every_member_of_the_workspace_is_checked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let packages = steps::packages(root).unwrap();
    assert_eq!(packages.len(), members.split(',').count(), "{packages:?}");
    let checked = steps::of_workspace::<()>(root, &packages);
    for long in steps::LONG_CHECKS {
        assert!(packages.iter().any(|package| package == long), "there is no {long}");
    }
    for package in packages {
        assert!(checked.iter().any(|test| test.title() == format!("{package}/check")), "{package}");
    }
}

/// The libraries that a command of Cargo builds for the targets of these kinds, with their features.
fn libraries(packages: &[&str], edges: &str) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "--prefix", "none", "--format", "{p} {f}", "--edges", edges];
    let cargo = std::process::Command::new(crate::assets::cargo().unwrap()).args(tree).args(packages).output().unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let said = String::from_utf8(cargo.stdout).unwrap();
    said.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// A library with other features is another library, and all that depends on it is built again: minutes of each round.
#[test]
fn cargo_builds_no_library_twice() {
    let tests = libraries(&["--workspace"], "normal,build,dev");
    for packages in [&["--package", "mooring-tests"][..], &["--workspace"]] {
        let more: Vec<_> = libraries(packages, "normal,build").difference(&tests).cloned().collect();
        assert_eq!(more, [""; 0], "with other features than for the unit tests");
    }
}

#[test]
fn groups_are_summed_up_the_longest_first() {
    let ended = |title: &str, seconds| Ended {
        title: title.to_owned(),
        dir: "/".into(),
        outcome: Outcome::Passed,
        took: Duration::from_secs(seconds),
    };
    let all = [ended("a/1", 2), ended("b/1", 20), ended("a/2", 3)];
    assert_eq!(output::groups(&all[..1]), [""; 0]);
    let lines = output::groups(&all);
    assert_eq!(lines[2..], ["     20.0 s     1  b", "      5.0 s     2  a"]);
}
