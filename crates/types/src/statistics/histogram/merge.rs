//! Merges many histograms into one.
//!
//! First the steps of the whole are chosen: all steps are sorted, those with few rows compared with their neighbours
//! are left out, and a builder takes the rest. Then each histogram is walked once together with the chosen steps, and
//! its rows are distributed:
//!
//! ```text
//! one histogram     ──┬─────────────range────────────┬──    its range is divided where the chosen steps lie in it;
//! chosen steps      ────────┬────────┬──────────────────┬─  a chosen step inside takes the rows of one value; its own
//! gets                 part │ part   │ part + the step      step, where that was not chosen, counts to the range
//! ```
//! Parts of an ascending key (one partition a day) do not overlap: their steps are unchanged while there is room.
//!
//! If histograms overlap, the number of different values of a range cannot be known: it is between that of the
//! histogram with the most and the sum. The geometric mean of both is taken. Its factor of error is at most √(sum /
//! most), which is the best possible bound. Counts of histograms that follow each other inside a range are added.
//! Sketches give better counts: [`Histogram::with_distinct`].

use super::builder::Range;
use super::{Histogram, HistogramBuilder, STEPS_MAX, Step, number_at, position};

/// Up to this many steps go to the builder unchanged. If there are more, they are first combined into this many parts
/// of the rows.
const CANDIDATES_MAX: usize = 8 * STEPS_MAX;
/// The number of parts of the rows formed before sorting if there are many histograms: finer than the result can be.
const SORTED_MAX: usize = 4 * CANDIDATES_MAX;
/// When steps are left out, those with at least this fraction of their histogram's rows stay: 1 / `FREQUENT`.
const FREQUENT: f64 = 800.0;

/// The fractional parts of its multiples are spread evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// Merges histograms of disjoint rows into one.
pub fn merged(histograms: &[&Histogram]) -> Histogram {
    merged_of(histograms.iter().map(|part| (*part, part.rows())))
}

/// Like [`merged`], with the rows of each histogram given.
pub(in super::super) fn merged_of<'h>(histograms: impl Iterator<Item = (&'h Histogram, f64)>) -> Histogram {
    let mut parts: Vec<(&Histogram, f64)> = histograms.filter(|(part, _)| !part.is_empty()).collect();
    if let [(part, _)] = parts[..] {
        return part.clone();
    }
    // In the order of their beginnings, so that a range's parts are in order as well.
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

/// A step without its key. The steps of many histograms are walked more than once; without keys they take a third of
/// the memory and are contiguous.
#[derive(Clone, Copy)]
struct Flat {
    /// Its position: the eight bytes after the common prefix of all keys. Keys at one position may differ after that.
    place: u64,
    range_rows: f64,
    distinct_range_rows: f64,
    equal_rows: f64,
}

/// The steps of all histograms, except NULLs'.
struct Outline {
    steps: Vec<Flat>,
    ends: Vec<usize>,
    common: usize,
    /// Whether keys at one position are equal, because they are short and of one length.
    is_exact: bool,
    /// The steps that the result may have.
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
        // If there are few steps, all are candidates. If there are many, one for each `heavy` rows.
        let heavy = if count <= SORTED_MAX { 0.0 } else { rows.iter().sum::<f64>() / SORTED_MAX as f64 };
        for ((number, part), rows) in (0..).zip(parts).zip(rows) {
            outline.add(number, part, (heavy, rows / FREQUENT), length);
        }
        outline
    }

    /// Adds a histogram's steps. Candidates are one step for each `heavy` rows, and steps with `frequent` rows
    /// themselves.
    fn add(&mut self, number: u32, part: &Histogram, (heavy, frequent): (f64, f64), length: usize) {
        let start = self.steps.len();
        let is_exact = part.values().iter().all(|step| step.key.len() == length);
        self.is_exact &= is_exact;
        // A loop of its own: processors overlap several memory accesses if there is little code between them.
        self.steps.extend(part.values().iter().zip(part.places(self.common)).map(|(step, place)| Flat {
            place,
            range_rows: step.range_rows,
            distinct_range_rows: step.distinct_range_rows,
            equal_rows: step.equal_rows,
        }));
        let mut range = Range::default();
        // Equal histograms get different candidates, so that together they have all.
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

/// A step of the result, while rows are added to it.
struct Target {
    place: u64,
    step: Step,
    /// Different values of the range, from complete groups of histograms.
    distinct: f64,
    /// Of the current group of overlapping histograms: the sum, the most of one, and the greatest position.
    sum: f64,
    most: f64,
    group_end: u64,
}

impl Target {
    /// Adds a histogram's rows and values inside the range, which extend from one position to another.
    fn add_range(&mut self, rows: f64, distinct: f64, from: u64, to: u64) {
        self.step.range_rows += rows;
        // Positions may be too coarse to decide: a part that begins and ends at the group's last position overlaps it.
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

/// A step of one histogram, kept small because many are sorted. Its rows are only weights here.
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

/// The steps of the result, without rows.
fn chosen(parts: &[&Histogram], outline: &mut Outline) -> Vec<Target> {
    let (is_exact, order) = (outline.is_exact, &mut outline.candidates);
    let key = |candidate: &Candidate| candidate.step(parts).key.as_slice();
    if is_exact {
        order.sort_unstable_by_key(|candidate| (candidate.place, candidate.part));
    } else {
        // A stable sort is fast here, because the input consists of sorted runs.
        order.sort_by(|left, right| left.place.cmp(&right.place).then_with(|| key(left).cmp(key(right))));
    }
    let is_same =
        |left: &Candidate, right: &Candidate| left.place == right.place && (is_exact || key(left) == key(right));
    let rows: f64 = order.iter().map(|step| f64::from(step.range_rows) + f64::from(step.equal_rows)).sum();
    // The least weight of a step that is taken, if there are many.
    let heavy = if order.len() <= CANDIDATES_MAX { 0.0 } else { rows / CANDIDATES_MAX as f64 };
    let mut builder = HistogramBuilder::new();
    if parts.iter().any(|part| part.steps.first().is_some_and(|step| step.value.is_none())) {
        // Reserves a step for NULL.
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

/// One histogram that is walked together with the targets.
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

    /// The position of a target in the range before a step, as a share.
    fn share_below(&self, target: &Target, at: usize) -> f64 {
        let Some(before) = at.checked_sub(1) else { return 1.0 };
        // If the positions are far enough apart, they give the share. Otherwise the keys differ late, and are compared
        // themselves.
        let (low, high) = (self.steps[before].place, self.steps[at].place);
        if high - low >= 1 << 20 || (self.is_exact && high > low) {
            return (target.place - low) as f64 / (high - low) as f64;
        }
        position(&self.keys[before].key, &target.step.key, &self.keys[at].key)
    }
}

/// Limits a number to 0..=`most`. None is NaN, which the library's functions have to check.
fn within(number: f64, most: f64) -> f64 {
    let number = if number < most { number } else { most };
    if number > 0.0 { number } else { 0.0 }
}

/// Distributes one histogram's rows among the targets. The first target is not above the histogram's first key, and the
/// last is not below its last key.
fn spread(walked: &Walked<'_>, targets: &mut [Target]) {
    let (Some(first), Some(last)) = (walked.steps.first(), walked.steps.last()) else { return };
    // The target at or above the current step. Targets before it are done.
    let mut at = targets.partition_point(|target| walked.is_below(target, 0));
    // What will be added to the range of `targets[at]`.
    let mut pending = Pending { rows: 0.0, distinct: 0.0, from: first.place };
    for (index, step) in walked.steps.iter().enumerate() {
        let mut left = (step.range_rows, step.distinct_range_rows);
        if walked.is_below(&targets[at], index) {
            // As in `Step::average` and `Step::values_below`, the range's values are evenly spaced.
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

/// Rows of one histogram to be added to a target's range.
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
