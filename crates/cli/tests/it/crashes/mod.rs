//! Real processes that are killed, and traces of real processes that are cut: everything acknowledged is present,
//! nothing is present partially, and every database can be used.
//!
//! ```text
//!   kills    a process lives ──► SIGKILL ──► (starts, killed too) ──► check ──► the next life in the same folder
//!   cuts     a process lives and is recorded ──► trace ──► at many places: what a loss of power leaves ──► check
//! ```
//!
//! `HOBT_KILLS` and `HOBT_CUTS` set their numbers, `HOBT_SEED` the first seed. A failure keeps its folder (the crashed
//! instance in `data`, the `journal`), and prints how to check it again with `HOBT_AGAIN`. `HOBT_PLANT` names a
//! deliberate bug (`hobt_instruments::planted`) for all processes, and `HOBT_PLANTED` the bugs that the cuts must find.
//!
//! `life` contains the work of each life, `check` the rules that must hold afterwards.
//! `docs/design/0037-kills-and-cuts.md` gives the reasons.

mod check;
mod journal;
mod life;
mod tables;

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

use hobt_base::SplitMix64;
use hobt_disk::{Replay, Trace};
use hobt_instruments::planted::{Bug, plant_everywhere};

use crate::client::{panic_text, setting};
use journal::Known;
use life::Orders;

/// The default numbers of kills and cuts.
const KILLS: u64 = 50;
const CUTS: u64 = 200;
/// The default time after which nothing new is begun.
const TIME_MAX: Duration = Duration::from_secs(80);
/// The text before a cut's number in a failure message.
const CUT_NUMBER: &str = "HOBT_CUTS=";
/// The duration of a life that will be killed: longer than the wait for its work.
const KILLED_LIFE_MS: u64 = 600_000;
/// Longer than any check takes.
const HANG: Duration = Duration::from_secs(120);
/// Lives per folder.
const LIVES: u64 = 8;
/// Cuts per trace.
const CUTS_OF_TRACE: u64 = 25;
/// Cuts per recorded start.
const CUTS_OF_START: u64 = 3;
/// One in this many cuts is recorded while it starts, and that recording is cut too.
const CUTS_A_START: u64 = 8;
/// The path of a folder with a crashed instance, to be checked again.
const AGAIN: &str = "HOBT_AGAIN";
/// The bug planted in a process and in those that it starts.
const PLANT: &str = "HOBT_PLANT";
/// The bugs to be found. `all`: those that the cuts have found before.
const PLANTED: &str = "HOBT_PLANTED";

/// Starts a life's process: this program, with its orders in the environment.
fn start(orders: &Orders) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["crashes::life_in_a_process_of_its_own", "--exact", "--nocapture", "--test-threads=1"]);
    let path = |path: &Path| path.to_str().expect("a path of letters").to_owned();
    let trace = orders.trace.as_deref().map(path).unwrap_or_default();
    let words = [
        path(&orders.folder),
        path(&orders.journal),
        trace,
        orders.seed.to_string(),
        orders.number.to_string(),
        u8::from(orders.only_starts).to_string(),
        orders.milliseconds.to_string(),
    ];
    command.env("HOBT_LIFE", words.join("|"));
    // Appended to earlier output, so that no panic is lost.
    let errors = orders.journal.with_file_name("stderr");
    let errors = std::fs::File::options().create(true).append(true).open(errors).expect("a file");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().expect("the program")
}

#[test]
fn life_in_a_process_of_its_own() {
    // Without orders there is nothing to do.
    let Ok(orders) = std::env::var("HOBT_LIFE") else { return };
    let words: Vec<&str> = orders.split('|').collect();
    let number = |place: usize| words[place].parse::<u64>().expect("a number");
    let trace = Some(words[2]).filter(|trace| !trace.is_empty()).map(PathBuf::from);
    plant_what_is_asked();
    life::live(&Orders {
        folder: words[0].into(),
        journal: words[1].into(),
        trace,
        seed: number(3),
        number: number(4).cast_signed(),
        only_starts: number(5) == 1,
        milliseconds: number(6),
    });
}

/// Plants the bug that the environment names, if any.
pub(crate) fn plant_what_is_asked() {
    if let Ok(name) = std::env::var(PLANT) {
        plant_everywhere(Bug::named(&name).unwrap_or_else(|| panic!("{PLANT}: there is no bug {name}")));
    }
}

/// A folder that is kept if something is wrong with it.
struct Place {
    folder: PathBuf,
    /// What was drawn, for the failure message.
    story: String,
}

impl Place {
    fn new(story: String) -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder").keep();
        Place { folder: folder.canonicalize().expect("the folder's path"), story }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    fn read_journal(&self) -> String {
        std::fs::read_to_string(self.journal()).unwrap_or_default()
    }

    /// All output of the processes so far, in order.
    fn read_errors(&self) -> String {
        let bytes = std::fs::read(self.folder.join("stderr")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Checks how a process has ended, and that none has panicked so far.
    fn check_end(&self, ended: ExitStatus, is_good: bool) {
        let errors = self.read_errors();
        if !is_good || errors.contains("panicked") {
            self.fail(&format!("a process ended with {ended}: {errors}"));
        }
    }

    fn remove(&self) {
        std::fs::remove_dir_all(&self.folder).expect("the folder");
    }

    /// Reports a broken rule, and how to reproduce it.
    fn fail(&self, broken: &str) -> ! {
        panic!(
            "{broken}\n{}\nkept: {folder}\nagain: {AGAIN}={folder} cargo test -p hobt-cli --test it crashes::again",
            self.story,
            folder = self.folder.display()
        )
    }
}

/// An instance that was set up and closed, as a starting point.
struct Template {
    folder: tempfile::TempDir,
}

impl Template {
    fn make() -> Template {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("the folder's path");
        let orders = Orders {
            folder: path.join("data"),
            journal: path.join("journal"),
            trace: None,
            seed: 0,
            number: 0,
            only_starts: false,
            milliseconds: 0,
        };
        let ended = start(&orders).wait().expect("it has ended");
        let errors = std::fs::read_to_string(path.join("stderr")).unwrap_or_default();
        assert!(ended.success(), "{errors}");
        Template { folder }
    }

    fn copy_to(&self, place: &Place) {
        copy(&self.folder.path().join("data"), &place.data());
        std::fs::copy(self.folder.path().join("journal"), place.journal()).expect("a copy");
    }
}

/// Copies the crashed instance, so that recovery can be repeated.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("the folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Checks on a thread of its own, which may panic, with a time limit.
fn check_guarded(folder: PathBuf, known: Known, choice: u64) -> Result<Vec<String>, String> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().stack_size(hobt::STACK_BYTES).spawn(move || {
        let _taken = sender.send(check::check(&folder, &known, choice));
    });
    match receiver.recv_timeout(HANG) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(format!("the check has not ended after {} s", HANG.as_secs())),
        Err(RecvTimeoutError::Disconnected) => {
            let panic = thread.expect("a thread").join().expect_err("it has told nothing");
            Err(format!("a panic: {}", panic_text(&*panic)))
        }
    }
}

/// Checks what a life has left, and adds the results to the journal.
fn check_place(place: &Place, choice: u64) {
    let checked = place.folder.join("checked");
    copy(&place.data(), &checked);
    match check_guarded(checked.clone(), Known::of(&place.read_journal()), choice) {
        Err(broken) => place.fail(&broken),
        Ok(lines) => {
            let notes = journal::Notes::to_file(&place.journal());
            lines.iter().for_each(|line| notes.note(line));
        }
    }
    std::fs::remove_dir_all(place.data()).expect("the folder");
    std::fs::rename(checked, place.data()).expect("the folder");
}

/// Whether there is time and need to continue.
struct Budget {
    wanted: u64,
    done: u64,
    /// `None` if the number was given explicitly.
    until: Option<Instant>,
}

impl Budget {
    fn new(name: &str, default: u64) -> Budget {
        let until = std::env::var_os(name).is_none().then(|| Instant::now() + TIME_MAX);
        Budget { wanted: setting(name, default), done: 0, until }
    }

    fn goes_on(&self) -> bool {
        self.done < self.wanted && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// The journal's lines about sessions' work that are written from now on. Checkpoints do not count: they continue even
/// if sessions are deadlocked.
struct Work {
    journal: PathBuf,
    /// The position of the first line that has not been read.
    at: u64,
    bytes: u64,
}

impl Work {
    fn from_now_on(journal: PathBuf) -> Work {
        let at = std::fs::metadata(&journal).map_or(0, |metadata| metadata.len());
        Work { journal, at, bytes: 0 }
    }

    /// The total bytes of such lines so far.
    fn bytes(&mut self) -> u64 {
        let Ok(mut file) = std::fs::File::open(&self.journal) else { return 0 };
        let mut new = Vec::new();
        file.seek(SeekFrom::Start(self.at)).expect("a place in the journal");
        file.read_to_end(&mut new).expect("the journal");
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.at += whole as u64;
        let lines = new[..whole].split_inclusive(|byte| *byte == b'\n');
        self.bytes += lines.filter(|line| !line.starts_with(b"checkpoint ")).map(|line| line.len() as u64).sum::<u64>();
        self.bytes
    }
}

/// Blocks until a process has done the wanted work or has ended. A process that makes no progress and has not ended is
/// stuck.
fn wait_for(place: &Place, child: &mut Child, wanted: u64, mut done: impl FnMut() -> u64) {
    let (mut most, mut last) = (0, Instant::now());
    loop {
        let now = done();
        if now >= wanted || child.try_wait().expect("its state").is_some() {
            return;
        }
        if now > most {
            (most, last) = (now, Instant::now());
        }
        if last.elapsed() >= life::STUCK {
            child.kill().expect("it is there, or has ended");
            child.wait().expect("it has ended");
            let seconds = life::STUCK.as_secs();
            place.fail(&format!("stuck: a process has done nothing for {seconds} s, behind {most} bytes of work"));
        }
        // No event reports the growth of a file by another process, and a kill at any size is valid.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Blocks until a process has ended by itself. Everything that it writes counts as progress.
fn wait_to_end(place: &Place, mut child: Child) -> ExitStatus {
    let length = |name: &str| std::fs::metadata(place.folder.join(name)).map_or(0, |metadata| metadata.len());
    wait_for(place, &mut child, u64::MAX, || length("journal") + length("trace"));
    child.wait().expect("it has ended")
}

/// Whether a process was killed.
fn is_killed(ended: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    ended.signal() == Some(9)
}

/// Starts a process and kills it at a random moment, which is intended here: after some amount of work, if it works.
fn start_and_kill(place: &Place, seed: u64, number: u64, only_starts: bool, random: &mut SplitMix64) {
    let errors = place.folder.join("stderr");
    let said = || std::fs::metadata(&errors).map_or(0, |metadata| metadata.len());
    let (said_before, is_new) = (said(), !place.data().exists());
    let mut work = Work::from_now_on(place.journal());
    let mut child = start(&Orders {
        folder: place.data(),
        journal: place.journal(),
        trace: None,
        seed,
        number: number.cast_signed(),
        only_starts,
        milliseconds: KILLED_LIFE_MS,
    });
    wait_for(place, &mut child, life::BEGINS.len() as u64, || said() - said_before);
    let moment = match (only_starts, is_new) {
        (true, _) => random.below(200),
        (_, true) => random.below(1500),
        _ => {
            // A line has about 20 bytes. One process in eight is killed before it has begun to work.
            let wanted = if random.below(8) == 0 { 0 } else { 1 + random.below(9_000) };
            wait_for(place, &mut child, wanted, || work.bytes());
            random.below(60)
        }
    };
    // The random moment of the kill is what is tested: any is valid.
    std::thread::sleep(Duration::from_millis(moment));
    let by_itself = child.try_wait().expect("its state");
    child.kill().expect("it is there, or has ended");
    let ended = child.wait().expect("it has ended");
    // A process that only starts may have ended already.
    place.check_end(ended, ended.success() || (by_itself.is_none() && is_killed(ended)));
}

#[test]
fn a_killed_process_has_lost_nothing() {
    let first = setting("HOBT_SEED", 1);
    let mut budget = Budget::new("HOBT_KILLS", KILLS);
    let (mut seed, mut committed) = (first, 0);
    let template = Template::make();
    while budget.goes_on() {
        let mut random = SplitMix64::new(seed);
        let mut place = Place::new(String::new());
        // Without it the first life creates a new instance.
        if random.below(4) > 0 {
            template.copy_to(&place);
        }
        for number in 1..=LIVES {
            place.story = format!("HOBT_SEED={seed}, life {number}, kill {}", budget.done + 1);
            start_and_kill(&place, random.next_u64(), number, false, &mut random);
            budget.done += 1;
            // Recovery is killed too, sometimes many times in a row.
            let starts = if random.below(3) == 0 { random.below(10) } else { 0 };
            for _ in 0..starts {
                start_and_kill(&place, 0, number, true, &mut random);
            }
            // Sometimes the next life continues without a check of this one.
            if random.below(4) > 0 || number == LIVES {
                check_place(&place, random.next_u64());
            }
            if !budget.goes_on() {
                check_place(&place, random.next_u64());
                break;
            }
        }
        committed += Known::of(&place.read_journal()).committed.len();
        place.remove();
        seed += 1;
    }
    println!("{} kills, {committed} transactions acknowledged", budget.done);
    assert!(budget.done >= 5 && committed > 0, "{} kills", budget.done);
}

/// A cut of a trace that waits for its check.
struct Cut {
    place: Place,
    known: Known,
    choice: u64,
}

/// Runs and records a life. Returns its place, which contains the trace, and the journal of the lives before.
fn record(template: &Template, seed: u64, random: &mut SplitMix64) -> (Place, String) {
    let place = Place::new(format!("HOBT_SEED={seed}"));
    let (is_first, is_second) = (random.below(6) == 0, random.below(3) == 0);
    if !is_first {
        template.copy_to(&place);
    }
    let orders = |number, trace, milliseconds, seed| Orders {
        folder: place.data(),
        journal: place.journal(),
        trace,
        seed,
        number,
        only_starts: false,
        milliseconds,
    };
    let live = |orders: &Orders| {
        let ended = wait_to_end(&place, start(orders));
        place.check_end(ended, ended.success());
    };
    if is_second {
        live(&orders(1, None, 200 + random.below(800), random.next_u64()));
    }
    let before = place.read_journal();
    live(&orders(2, Some(place.folder.join("trace")), 20_000, random.next_u64()));
    (place, before)
}

/// Draws positions at which to cut a trace, in order. Some are anywhere. Most are directly after something was promised
/// durably: to a session, by a header, by a sync.
fn draw_cuts(trace: &Trace, random: &mut SplitMix64, count: u64) -> Vec<usize> {
    let below = |random: &mut SplitMix64, bound: usize| usize::try_from(random.below(bound as u64)).expect("below it");
    let (durable, rewritten, synced) = (trace.durable_places(), trace.rewritten_places(), trace.synced_places());
    let ended = ["done ", "undone ", "dropped ", "checkpoint "].map(|end| trace.marked_places(end.as_bytes()));
    let ended: Vec<Vec<usize>> = ended.into_iter().filter(|places| !places.is_empty()).collect();
    let first = trace.first_change();
    let mut cuts: Vec<usize> = (0..count)
        .map(|_| {
            let places = match random.below(8) {
                0 | 1 => &[][..],
                2 => &durable[..],
                3 | 4 => &rewritten[..],
                5 => &synced[..],
                _ if ended.is_empty() => &[][..],
                _ => &ended[below(random, ended.len())][..],
            };
            if places.is_empty() {
                return first + below(random, trace.len() - first + 1);
            }
            (places[below(random, places.len())] + below(random, 3) * below(random, 2)).min(trace.len())
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Receives cuts. Returns whether it accepts more.
type Taker<'t> = &'t mut dyn FnMut(Cut) -> bool;

/// Creates the folder that a loss of power leaves at each position, and passes it on. Some are started first, and that
/// start is cut too. Returns whether more cuts are accepted.
fn cut_trace(recorded: &Place, before: &str, seed: u64, count: u64, hand_over: Taker<'_>) -> bool {
    let trace = Trace::read(&recorded.folder.join("trace")).expect("the trace");
    let journal_at = |at: usize| {
        let marks: Vec<u8> = trace.marks(at).flatten().copied().collect();
        format!("{before}{}", String::from_utf8(marks).expect("the journal's lines"))
    };
    // A wrong answer near the end may lie after all cuts.
    let whole = journal_at(trace.len());
    if let Some(wrong) = Known::of(&whole).wrong.first() {
        std::fs::write(recorded.journal(), &whole).expect("the journal");
        recorded.fail(&format!("while it was recorded: {wrong}"));
    }
    let mut random = SplitMix64::new(seed);
    let mut replay = Replay::new(&trace);
    for at in draw_cuts(&trace, &mut random, count) {
        replay.run_to(at);
        let survival = random.next_u64();
        let story = format!("{}, cut before event {at} of {}, survival {survival}", recorded.story, trace.len());
        let journal = journal_at(at);
        let crash = |story: String| {
            let place = Place::new(story);
            replay.crash(&mut SplitMix64::new(survival), &place.data()).expect("the folder");
            std::fs::write(place.journal(), &journal).expect("the journal");
            place
        };
        let (choice, seed) = (random.next_u64(), random.next_u64());
        if random.below(CUTS_A_START) == 0 && !cut_start(&crash(story.clone()), seed, hand_over) {
            return false;
        }
        if !hand_over(Cut { place: crash(story), known: Known::of(&journal), choice }) {
            return false;
        }
    }
    true
}

/// Starts the instance that a cut has left, records that, and cuts it. Returns whether more cuts are accepted.
fn cut_start(crashed: &Place, seed: u64, hand_over: Taker<'_>) -> bool {
    let started = Place::new(format!("{}, started", crashed.story));
    copy(&crashed.data(), &started.data());
    let journal = crashed.read_journal();
    std::fs::write(started.journal(), &journal).expect("the journal");
    let child = start(&Orders {
        folder: started.data(),
        journal: started.journal(),
        trace: Some(started.folder.join("trace")),
        seed: 0,
        number: 0,
        only_starts: true,
        milliseconds: 0,
    });
    let ended = wait_to_end(&started, child);
    let errors = started.read_errors();
    if !ended.success() || errors.contains("panicked") {
        crashed.fail(&format!("a start behind a cut ended with {ended}: {errors}"));
    }
    crashed.remove();
    let wants_more = cut_trace(&started, &journal, seed, CUTS_OF_START, hand_over);
    started.remove();
    wants_more
}

/// Checks cuts as they arrive, up to one that breaks a rule, which it signals in `is_broken`. Later cuts are received
/// and dropped, so that the sender does not block.
fn check_cuts(cuts: &Mutex<Receiver<Cut>>, is_broken: &AtomicBool) -> Option<(Place, String)> {
    let mut broken = None;
    loop {
        let next = cuts.lock().expect("no checker panics with it").recv();
        let Ok(Cut { place, known, choice }) = next else { return broken };
        if is_broken.load(Ordering::Relaxed) {
            place.remove();
            continue;
        }
        let checked = place.folder.join("checked");
        copy(&place.data(), &checked);
        match check_guarded(checked, known, choice) {
            Ok(_) => place.remove(),
            Err(what) => {
                is_broken.store(true, Ordering::Relaxed);
                broken = Some((place, what));
            }
        }
    }
}

#[test]
fn a_process_that_loses_its_power_has_lost_nothing() {
    plant_what_is_asked();
    let first = setting("HOBT_SEED", 1);
    let mut budget = Budget::new("HOBT_CUTS", CUTS);
    let (sender, receiver) = sync_channel(2);
    let (receiver, is_broken) = (Mutex::new(receiver), AtomicBool::new(false));
    let template = Template::make();
    std::thread::scope(|scope| {
        let is_broken = &is_broken;
        let checkers: Vec<_> = (0..2).map(|_| scope.spawn(|| check_cuts(&receiver, is_broken))).collect();
        let mut seed = first;
        while budget.goes_on() && !is_broken.load(Ordering::Relaxed) {
            let mut random = SplitMix64::new(seed);
            let (recorded, before) = record(&template, seed, &mut random);
            let count = CUTS_OF_TRACE.min(budget.wanted - budget.done);
            cut_trace(&recorded, &before, random.next_u64(), count, &mut |mut cut| {
                budget.done += 1;
                cut.place.story.push_str(&format!(", {CUT_NUMBER}{}", budget.done));
                sender.send(cut).is_ok() && budget.goes_on() && !is_broken.load(Ordering::Relaxed)
            });
            recorded.remove();
            seed += 1;
        }
        drop(sender);
        for checker in checkers {
            if let Some((place, broken)) = checker.join().expect("a checker tells of panics") {
                place.fail(&broken);
            }
        }
    });
    println!("{} cuts", budget.done);
    assert!(budget.done >= 10, "{} cuts", budget.done);
}

/// Deliberate bugs that the cuts have found, though not with every seed: those in the table of the design note.
const FOUND: [Bug; 8] = [
    Bug::EndNotDurableAtCheckpoint,
    Bug::CommitNotDurable,
    Bug::PagesBeforeLog,
    Bug::NoImages,
    Bug::NoRowUndo,
    Bug::NoKeyUndo,
    Bug::OldestByLastRecord,
    Bug::NoRedo,
];
const PLANTED_CUTS: u64 = 500;

/// The cuts find deliberate bugs; by default one bug is tested.
#[test]
fn bugs_on_purpose_are_found() {
    let named = |name: &str| Bug::named(name).unwrap_or_else(|| panic!("{PLANTED}: there is no bug {name}"));
    let bugs = match std::env::var(PLANTED).as_deref() {
        Err(_) => vec![Bug::CommitNotDurable],
        Ok("all") => FOUND.to_vec(),
        Ok(names) => names.split(',').map(named).collect(),
    };
    let missed: Vec<Bug> = bugs.into_iter().filter(|bug| !is_found(*bug)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Whether the cuts find a bug that is planted in a process of their own. Prints how, and removes what it keeps.
fn is_found(bug: Bug) -> bool {
    let since = Instant::now();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["crashes::a_process_that_loses_its_power_has_lost_nothing", "--exact", "--nocapture"]);
    command.env(PLANT, format!("{bug:?}")).env("HOBT_CUTS", setting("HOBT_CUTS", PLANTED_CUTS).to_string());
    let output = command.stdin(Stdio::null()).output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    if let Some(folder) = said.lines().find_map(|line| line.strip_prefix("kept: ")) {
        std::fs::remove_dir_all(folder).expect("the folder");
    }
    let cut = said.split(CUT_NUMBER).nth(1).and_then(|rest| rest.lines().next());
    let broken = said.lines().skip_while(|line| !line.contains("panicked at")).nth(1).unwrap_or("nothing");
    let broken: String = broken.chars().take(150).collect();
    println!("{bug:?}: cut {}, {} s: {broken}", cut.unwrap_or("?"), since.elapsed().as_secs());
    // The failure must come from a broken rule, not from another cause.
    !output.status.success() && said.contains(&format!("again: {AGAIN}"))
}

/// Checks a kept folder again, for debugging.
#[test]
fn again() {
    let Some(folder) = std::env::var_os(AGAIN) else { return };
    let place = Place { folder: folder.into(), story: String::new() };
    let checked = tempfile::tempdir().expect("a temporary folder").keep().join("checked");
    copy(&place.data(), &checked);
    println!("checked in {}", checked.display());
    for choice in 0..20 {
        let result = check_guarded(checked.clone(), Known::of(&place.read_journal()), choice);
        result.map(drop).unwrap_or_else(|broken| place.fail(&broken));
    }
}
