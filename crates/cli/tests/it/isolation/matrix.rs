//! Scenarios that run for every form of a table at every level. Common results are written once, and different results
//! name their variants.

use std::collections::BTreeMap;

use super::driver::World;
use super::{Level, Scenario, Spec, Step, difference};

/// A level and a form, by name.
type Variant<'s> = (&'s str, &'s str);

/// The results of each step of a scenario, or the sessions that are blocked at its end.
type Played = Result<Vec<Vec<String>>, Vec<u32>>;

/// Runs the scenarios of a file; see [`super::play_file`]. Each level has a database and a thread of its own.
pub(super) fn play_file(world: &World, name: &str, spec: &Spec, text: &mut String, failures: &mut Vec<String>) {
    let played: Vec<Vec<Vec<Played>>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            spec.levels.iter().map(|level| scope.spawn(move || play_level(world, spec, level))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let forms: Vec<&str> = spec.forms.iter().map(|(form, _)| form.as_str()).collect();
    for (at, (comments, scenario)) in spec.scenarios.iter().enumerate() {
        comments.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        text.push_str(&format!("scenario {}\n", scenario.name));
        let mut found: Vec<Vec<(Variant<'_>, &[String])>> = scenario.steps.iter().map(|_| Vec::new()).collect();
        for (level, of_level) in spec.levels.iter().zip(&played) {
            for (form, played) in forms.iter().zip(&of_level[at]) {
                let (level, scenario) = (level.name.as_str(), &scenario.name);
                match played {
                    Ok(steps) => {
                        let steps = found.iter_mut().zip(steps);
                        steps.for_each(|(found, step)| found.push(((level, *form), step.as_slice())));
                    }
                    Err(left) => {
                        failures.push(format!("{name}: {scenario} [{level}/{form}]: blocked at its end: {left:?}"));
                    }
                }
            }
        }
        for (step, found) in scenario.steps.iter().zip(&found) {
            text.push_str(&format!("{}: {}\n", step.session, step.batch));
            grouped(found, &forms).iter().for_each(|line| text.push_str(&format!("{line}\n")));
            for ((level, form), found) in found {
                let expected = expected(step, (level, form));
                if *found != expected {
                    failures.push(difference(&format!("{} [{level}/{form}]", scenario.name), step, &expected, found));
                }
            }
        }
    }
}

/// Runs all scenarios at a level, each with all forms.
fn play_level(world: &World, spec: &Spec, level: &Level) -> Vec<Vec<Played>> {
    let mut options = spec.options.clone();
    options.push(format!("READ_COMMITTED_SNAPSHOT {}", level.versions));
    world.make_database(&level.name, &options, &spec.once);
    let each = format!("SET TRANSACTION ISOLATION LEVEL {}; {}", level.isolation, spec.each);
    let play = |scenario: &Scenario, form: &str| -> Played {
        let mut play = world.begin(&level.name, &format!("{form}{}", spec.setup), &each);
        let found = scenario.steps.iter().map(|step| play.step(step.session, &step.batch)).collect();
        let left = play.end();
        world.run(&level.name, "DROP TABLE test");
        if left.is_empty() { Ok(found) } else { Err(left) }
    };
    let of_scenario = |scenario| spec.forms.iter().map(|(_, form)| play(scenario, form)).collect();
    spec.scenarios.iter().map(|(_, scenario)| of_scenario(scenario)).collect()
}

/// The expected lines of a step for a variant.
fn expected(step: &Step, (level, form): Variant<'_>) -> Vec<String> {
    let of_variant = |line: &String| match line.strip_prefix('[').and_then(|line| line.split_once("] ")) {
        None => Some(line.clone()),
        Some((variants, outcome)) => {
            let is_meant = |variant: &str| match variant.split_once('/') {
                Some((of_level, of_form)) => (of_level, of_form) == (level, form),
                None => variant == level,
            };
            variants.split(' ').any(is_meant).then(|| outcome.to_owned())
        }
    };
    step.expected.iter().filter_map(of_variant).collect()
}

/// For the index of each level, its name and the forms.
type FormsOfLevels<'s> = BTreeMap<usize, (&'s str, Vec<&'s str>)>;

/// The results of all variants: each distinct result once, with its variants.
fn grouped(found: &[(Variant<'_>, &[String])], forms: &[&str]) -> Vec<String> {
    let mut groups: Vec<(&[String], FormsOfLevels<'_>)> = Vec::new();
    let mut levels: Vec<&str> = Vec::new();
    for ((level, form), outcome) in found {
        let place = levels.iter().position(|known| known == level).unwrap_or_else(|| {
            levels.push(level);
            levels.len() - 1
        });
        let known = groups.iter().position(|(known, _)| known == outcome).unwrap_or_else(|| {
            groups.push((outcome, BTreeMap::new()));
            groups.len() - 1
        });
        groups[known].1.entry(place).or_insert((level, Vec::new())).1.push(form);
    }
    if let [(outcome, _)] = groups.as_slice() {
        return outcome.to_vec();
    }
    let mut lines = Vec::new();
    for (outcome, variants) in groups {
        let names = variants.values().flat_map(|(level, of_level)| match of_level.len() == forms.len() {
            true => vec![(*level).to_owned()],
            false => of_level.iter().map(|form| format!("{level}/{form}")).collect(),
        });
        let names = names.collect::<Vec<_>>().join(" ");
        lines.extend(outcome.iter().map(|line| format!("[{names}] {line}")));
    }
    lines
}
