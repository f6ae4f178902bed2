//! Makes one histogram of many.
//!
//! First the steps of the whole are chosen: all steps are sorted, those with few rows beside their neighbours' are left
//! out, and a builder takes what remains. Then each histogram is walked once beside the chosen steps, and what it knows
//! goes where it belongs:
//!
//! ```text
//! one histogram     ──┬─────────────range────────────┬──    its range is divided where the chosen steps lie in it;
//! chosen steps      ────────┬────────┬──────────────────┬─  a chosen step inside takes the rows of one value; its own
//! gets                 part │ part   │ part + the step      step, where that was not chosen, counts to the range
//! ```
//! Parts of an ascending key (one partition a day) overlap nowhere: their steps stay as they are while there is room.
//!
//! How many different values a range has cannot be known where histograms overlap: between that of the one with most
//! and the sum. The geometric mean of both is taken, whose factor of error is never above √(sum / most), the least that
//! can be promised. Histograms that follow each other inside a range add up. Sketches know better:
//! [`Histogram::with_distinct`].

use super::builder::Range;
use super::{Histogram, HistogramBuilder, STEPS_MAX, Step, number_at, position};

/// So many steps go to the builder as they are; of more, so many parts of the rows are formed first.
const CANDIDATES_MAX: usize = 8 * STEPS_MAX;
/// Parts of the rows that are formed before sorting, where there are many histograms: finer than the whole can be.
const SORTED_MAX: usize = 4 * CANDIDATES_MAX;
/// Where steps are left out, those stay that have such a share of their histogram's rows: 1 / so many.
const FREQUENT: f64 = 800.0;

/// Multiples of it, without their whole parts, are spread evenly however many they are.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// One histogram of the rows of all of these.
pub fn merged(histograms: &[&Histogram]) -> Histogram {
    merged_of(histograms.iter().map(|part| (*part, part.rows())))
}

/// The same of histograms whose rows are known.
pub(in super::super) fn merged_of<'h>(histograms: impl Iterator<Item = (&'h Histogram, f64)>) -> Histogram {
    let mut parts: Vec<(&Histogram, f64)> = histograms.filter(|(part, _)| !part.is_empty()).collect();
    if let [(part, _)] = parts[..] {
        return part.clone();
    }
    // In the order of their beginnings, so that a range's parts come in order, too.
    parts.sort_by_key(|(part, _)| part.values().first().map(|step| step.key.as_slice()));
    let (parts, rows): (Vec<&Histogram>, Vec<f64>) = parts.into_iter().unzip();
    let mut outline = Outline::new(&parts, &rows);
    let mut targets: Vec<Target> = chosen(&parts, &mut outline);
    for (part, steps) in parts.iter().zip(outline.parts()) {
        spread(&Walked { steps, keys: part.values(), is_exact: outline.is_exact }, &mut targets);
    }
    let nulls = parts.iter().find_map(|part| part.steps.first().filter(|step| step.value.is_none()));
    let nulls = nulls.map(|step| Step { equal_rows: parts.iter().map(|part| part.nulls()).sum(), ..step.clone() });
    Histogram::of(nulls.into_iter().chain(targets.into_iter().map(Target::finish)).collect())
}

/// A step without its key: the steps of many histograms are walked more than once, and this is a third of what they
/// take and lies together.
#[derive(Clone, Copy)]
struct Flat {
    /// Where it lies: the eight bytes behind what all keys begin with. Keys in one place differ behind that, or not.
    place: u64,
    range_rows: f64,
    distinct_range_rows: f64,
    equal_rows: f64,
}

/// The steps of all histograms, NULLs' apart.
struct Outline {
    steps: Vec<Flat>,
    ends: Vec<usize>,
    common: usize,
    /// Whether keys in one place are equal: they are short and of one length.
    is_exact: bool,
    /// Which of them the whole may have.
    candidates: Vec<Candidate>,
}

impl Outline {
    fn new(parts: &[&Histogram], rows: &[f64]) -> Outline {
        let least = parts.iter().filter_map(|part| part.min()).map(|step| &step.key).min();
        let greatest = parts.iter().filter_map(|part| part.max()).map(|step| &step.key).max();
        let common = least.zip(greatest).map_or(0, |(least, greatest)| {
            least.iter().zip(greatest).take_while(|(least, greatest)| least == greatest).count()
        });
        let length = least.map_or(0, Vec::len);
        let count = parts.iter().map(|part| part.values().len()).sum();
        let mut outline = Outline {
            steps: Vec::with_capacity(count),
            ends: Vec::with_capacity(parts.len()),
            common,
            is_exact: length <= common + 8,
            candidates: Vec::with_capacity(count.min(2 * SORTED_MAX)),
        };
        // Of few steps all are candidates; of many, those that end so many rows.
        let heavy = if count <= SORTED_MAX { 0.0 } else { rows.iter().sum::<f64>() / SORTED_MAX as f64 };
        for ((number, part), rows) in (0..).zip(parts).zip(rows) {
            outline.add(number, part, (heavy, rows / FREQUENT), length);
        }
        outline
    }

    /// Adds a histogram's steps, and as candidates those that end `heavy` rows or are themselves of `frequent` rows.
    fn add(&mut self, number: u32, part: &Histogram, (heavy, frequent): (f64, f64), length: usize) {
        let start = self.steps.len();
        let is_exact = part.values().iter().all(|step| step.key.len() == length);
        self.is_exact &= is_exact;
        // A loop of its own: processors wait for several places in memory at once if little stands between them.
        self.steps.extend(part.values().iter().zip(part.places(self.common)).map(|(step, place)| Flat {
            place,
            range_rows: step.range_rows,
            distinct_range_rows: step.distinct_range_rows,
            equal_rows: step.equal_rows,
        }));
        let mut range = Range::default();
        // Histograms that are alike have different candidates, so that together they have them all.
        let mut due = heavy * (f64::from(number) * GOLDEN).fract();
        let mut reached = 0.0;
        for (at, step) in (0..).zip(&self.steps[start..]) {
            let Flat { place, range_rows, distinct_range_rows, equal_rows } = *step;
            range = range.with(Range::even(range_rows, distinct_range_rows));
            reached += range_rows + equal_rows;
            let is_end = at == 0 || at as usize + 1 == part.values().len();
            if is_end || reached >= due || equal_rows >= frequent {
                self.candidates.push(Candidate {
                    place,
                    part: number,
                    step: at,
                    range_rows: range.rows as f32,
                    distinct_range_rows: range.distinct as f32,
                    equal_rows: equal_rows as f32,
                });
                range = Range::default();
                if reached >= due && heavy > 0.0 {
                    due += heavy * (((reached - due) / heavy).floor() + 1.0);
                }
            } else {
                range = range.with(Range::of_value(equal_rows));
            }
        }
        self.ends.push(self.steps.len());
    }

    fn parts(&self) -> impl Iterator<Item = &[Flat]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.steps[start..*end])
    }
}

/// A step of the whole, while it is filled.
struct Target {
    place: u64,
    step: Step,
    /// Different values of the range, of groups of histograms that are complete.
    distinct: f64,
    /// Of the group that is being filled, histograms that overlap: the sum, the most of one, and the greatest place.
    sum: f64,
    most: f64,
    group_end: u64,
}

impl Target {
    /// Takes a histogram's rows and values inside the range; they lie from one place to another.
    fn add_range(&mut self, rows: f64, distinct: f64, from: u64, to: u64) {
        self.step.range_rows += rows;
        // Places may be too coarse to tell: what begins and ends in the group's last place overlaps it.
        if from > self.group_end || (from == self.group_end && from < to) {
            self.close_group();
        }
        self.sum += distinct;
        self.most = self.most.max(distinct);
        self.group_end = self.group_end.max(to);
    }

    fn close_group(&mut self) {
        self.distinct += (self.sum * self.most).sqrt();
        (self.sum, self.most) = (0.0, 0.0);
    }

    fn finish(mut self) -> Step {
        self.close_group();
        self.step.distinct_range_rows = self.distinct.min(self.step.range_rows);
        self.step
    }
}

/// A step of one histogram, as small as sorting many wants it; its rows are only weights here.
#[derive(Clone, Copy)]
struct Candidate {
    place: u64,
    part: u32,
    step: u32,
    range_rows: f32,
    distinct_range_rows: f32,
    equal_rows: f32,
}

impl Candidate {
    fn step<'h>(&self, parts: &[&'h Histogram]) -> &'h Step {
        &parts[self.part as usize].values()[self.step as usize]
    }
}

/// The steps of the whole, still without rows.
fn chosen(parts: &[&Histogram], outline: &mut Outline) -> Vec<Target> {
    let (is_exact, order) = (outline.is_exact, &mut outline.candidates);
    let key = |candidate: &Candidate| candidate.step(parts).key.as_slice();
    if is_exact {
        order.sort_unstable_by_key(|candidate| (candidate.place, candidate.part));
    } else {
        // One sorted run behind the other: what a stable sort is good at.
        order.sort_by(|left, right| left.place.cmp(&right.place).then_with(|| key(left).cmp(key(right))));
    }
    let is_same =
        |left: &Candidate, right: &Candidate| left.place == right.place && (is_exact || key(left) == key(right));
    let rows: f64 = order.iter().map(|step| f64::from(step.range_rows) + f64::from(step.equal_rows)).sum();
    // What a step weighs that is taken, however many there are.
    let heavy = if order.len() <= CANDIDATES_MAX { 0.0 } else { rows / CANDIDATES_MAX as f64 };
    let mut builder = HistogramBuilder::new();
    if parts.iter().any(|part| part.steps.first().is_some_and(|step| step.value.is_none())) {
        // Takes the place of NULL's step.
        builder.push(&[], None, 0.0);
    }
    let mut range = Range::default();
    let mut seen = 0;
    for same in order.chunk_by(is_same) {
        let is_end = seen == 0 || seen + same.len() == order.len();
        seen += same.len();
        let mut equal_rows = 0.0;
        for candidate in same {
            range = range.with(Range::even(candidate.range_rows.into(), candidate.distinct_range_rows.into()));
            equal_rows += f64::from(candidate.equal_rows);
        }
        if is_end || range.rows + equal_rows >= heavy {
            let step = same[0].step(parts);
            builder.push_range(range, &step.key, step.value.as_deref(), equal_rows);
            range = Range::default();
        } else {
            range = range.with(Range::of_value(equal_rows));
        }
    }
    let empty = |step: Step| Target {
        place: number_at(&step.key, outline.common),
        step: Step { range_rows: 0.0, equal_rows: 0.0, distinct_range_rows: 0.0, ..step },
        distinct: 0.0,
        sum: 0.0,
        most: 0.0,
        group_end: 0,
    };
    builder.finish().steps.into_iter().filter(|step| step.value.is_some()).map(empty).collect()
}

/// One histogram, walked beside the targets.
struct Walked<'h> {
    steps: &'h [Flat],
    keys: &'h [Step],
    is_exact: bool,
}

impl Walked<'_> {
    fn is_below(&self, target: &Target, at: usize) -> bool {
        let place = self.steps[at].place;
        target.place < place || (target.place == place && !self.is_exact && target.step.key < self.keys[at].key)
    }

    fn is_at(&self, target: &Target, at: usize) -> bool {
        target.place == self.steps[at].place && (self.is_exact || target.step.key == self.keys[at].key)
    }

    /// Where in the range before a step a target lies.
    fn share_below(&self, target: &Target, at: usize) -> f64 {
        let Some(before) = at.checked_sub(1) else { return 1.0 };
        // Places that are far enough from each other say it; keys that differ late are looked at more closely.
        let (low, high) = (self.steps[before].place, self.steps[at].place);
        if high - low >= 1 << 20 || (self.is_exact && high > low) {
            return (target.place - low) as f64 / (high - low) as f64;
        }
        position(&self.keys[before].key, &target.step.key, &self.keys[at].key)
    }
}

/// A number from 0 to another. None of them is NaN, about which the library's functions have to ask.
fn within(number: f64, most: f64) -> f64 {
    let number = if number < most { number } else { most };
    if number > 0.0 { number } else { 0.0 }
}

/// Distributes one histogram's rows among the targets, of which the first is not above its first key, nor the last
/// below its last.
fn spread(walked: &Walked<'_>, targets: &mut [Target]) {
    let (Some(first), Some(last)) = (walked.steps.first(), walked.steps.last()) else { return };
    // The target at or above the step that is looked at; targets before it are done.
    let mut at = targets.partition_point(|target| walked.is_below(target, 0));
    // What goes to the range of `targets[at]`.
    let mut pending = Pending { rows: 0.0, distinct: 0.0, from: first.place };
    for (index, step) in walked.steps.iter().enumerate() {
        let mut left = (step.range_rows, step.distinct_range_rows);
        if walked.is_below(&targets[at], index) {
            // As `Step::average` and `Step::values_below`: the range's values are evenly spaced.
            let average = step.range_rows / step.distinct_range_rows.max(1.0);
            let mut reached = 0.0;
            while walked.is_below(&targets[at], index) {
                let share = walked.share_below(&targets[at], index) * (step.distinct_range_rows + 1.0);
                let target = &mut targets[at];
                // The values strictly below the target, the target's own, and those above.
                let below = within(within(share - 1.0, step.distinct_range_rows) - reached, left.1);
                let own = within(left.1 - below, 1.0);
                let below_rows = within(below * average, left.0);
                let own_rows = within(own * average, left.0 - below_rows);
                pending.add(below_rows, below);
                pending.flush(target, target.place);
                target.step.equal_rows += own_rows;
                left = (left.0 - below_rows - own_rows, left.1 - below - own);
                reached = within(share, step.distinct_range_rows);
                at += 1;
            }
        }
        pending.add(left.0, left.1);
        if walked.is_at(&targets[at], index) {
            pending.flush(&mut targets[at], step.place);
            targets[at].step.equal_rows += step.equal_rows;
            at += 1;
        } else {
            pending.add(step.equal_rows, f64::from(u8::from(step.equal_rows > 0.0)));
        }
    }
    if let Some(target) = targets.get_mut(at) {
        pending.flush(target, last.place);
    }
}

/// Rows of one histogram on their way to a target's range.
struct Pending {
    rows: f64,
    distinct: f64,
    from: u64,
}

impl Pending {
    fn add(&mut self, rows: f64, distinct: f64) {
        self.rows += rows;
        self.distinct += distinct;
    }

    fn flush(&mut self, target: &mut Target, to: u64) {
        if self.rows > 0.0 {
            target.add_range(self.rows, self.distinct, self.from, to);
        }
        *self = Pending { rows: 0.0, distinct: 0.0, from: to };
    }
}

#[cfg(test)]
mod tests;
