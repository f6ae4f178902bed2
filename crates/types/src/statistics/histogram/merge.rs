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
const SORTED_MAX: usize = 10 * CANDIDATES_MAX;
/// Where steps are left out, those stay that have such a share of their histogram's rows: 1 / so many.
const FREQUENT: f64 = 800.0;

/// One histogram of the rows of all of these.
pub fn merged(histograms: &[&Histogram]) -> Histogram {
    let mut parts: Vec<&Histogram> = histograms.iter().copied().filter(|part| !part.is_empty()).collect();
    if let [part] = parts[..] {
        return part.clone();
    }
    // In the order of their beginnings, so that a range's parts come in order, too.
    parts.sort_by_key(|part| part.values().first().map(|step| step.key.as_slice()));
    let places = Places::new(&parts);
    let mut targets: Vec<Target> = chosen(&parts, &places);
    for (part, part_places) in parts.iter().zip(places.parts()) {
        spread(part.values(), part_places, &mut targets);
    }
    let nulls = parts.iter().find_map(|part| part.steps.first().filter(|step| step.value.is_none()));
    let nulls = nulls.map(|step| Step { equal_rows: parts.iter().map(|part| part.nulls()).sum(), ..step.clone() });
    Histogram { steps: nulls.into_iter().chain(targets.into_iter().map(Target::finish)).collect() }
}

/// Where each step of each histogram lies: the eight bytes behind what all keys begin with. Keys in one place differ
/// behind that, or not.
struct Places {
    places: Vec<u64>,
    ends: Vec<usize>,
    /// Each histogram's rows that are not NULL.
    rows: Vec<f64>,
    common: usize,
    /// Whether keys in one place are equal: they are short and of one length.
    is_exact: bool,
}

impl Places {
    fn new(parts: &[&Histogram]) -> Places {
        let least = parts.iter().filter_map(|part| part.min()).map(|step| &step.key).min();
        let greatest = parts.iter().filter_map(|part| part.max()).map(|step| &step.key).max();
        let common = least.zip(greatest).map_or(0, |(least, greatest)| {
            least.iter().zip(greatest).take_while(|(least, greatest)| least == greatest).count()
        });
        let mut places = Vec::with_capacity(parts.len() * STEPS_MAX);
        let mut ends = Vec::with_capacity(parts.len());
        let length = least.map_or(0, Vec::len);
        let mut is_exact = length <= common + 8;
        let mut rows = Vec::with_capacity(parts.len());
        for part in parts {
            let mut part_rows = 0.0;
            for step in part.values() {
                places.push(number_at(&step.key, common));
                is_exact &= step.key.len() == length;
                part_rows += step.range_rows + step.equal_rows;
            }
            ends.push(places.len());
            rows.push(part_rows);
        }
        Places { places, ends, rows, common, is_exact }
    }

    fn parts(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.places[start..*end])
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
    step: u32,
    range_rows: f32,
    distinct_range_rows: f32,
    equal_rows: f32,
}

/// The steps in the order of their keys; of very many, those that end a share of the rows or are frequent.
fn sorted(parts: &[&Histogram], steps: &[&Step], places: &Places) -> Vec<Candidate> {
    let is_short = steps.len() <= SORTED_MAX;
    let heavy = if is_short { 0.0 } else { places.rows.iter().sum::<f64>() / SORTED_MAX as f64 };
    let mut order = Vec::with_capacity(steps.len().min(2 * SORTED_MAX));
    let mut at = 0;
    for (part, rows) in parts.iter().zip(&places.rows) {
        let frequent = rows / FREQUENT;
        let mut range = Range::default();
        for (index, step) in part.values().iter().enumerate() {
            range = range.with(Range::even(step.range_rows, step.distinct_range_rows));
            let is_end = index == 0 || index + 1 == part.values().len();
            if is_end || range.rows + step.equal_rows >= heavy || step.equal_rows >= frequent {
                order.push(Candidate {
                    place: places.places[at],
                    step: at as u32,
                    range_rows: range.rows as f32,
                    distinct_range_rows: range.distinct as f32,
                    equal_rows: step.equal_rows as f32,
                });
                range = Range::default();
            } else {
                range = range.with(Range::of_value(step.equal_rows));
            }
            at += 1;
        }
    }
    // One sorted run behind the other: what a stable sort is good at.
    if places.is_exact {
        order.sort_by_key(|candidate| candidate.place);
    } else {
        let key = |candidate: &Candidate| steps[candidate.step as usize].key.as_slice();
        order.sort_by(|left, right| left.place.cmp(&right.place).then_with(|| key(left).cmp(key(right))));
    }
    order
}

/// The steps of the whole, still without rows.
fn chosen(parts: &[&Histogram], places: &Places) -> Vec<Target> {
    let steps: Vec<&Step> = parts.iter().flat_map(|part| part.values()).collect();
    let order = sorted(parts, &steps, places);
    let is_same = |left: &Candidate, right: &Candidate| {
        left.place == right.place
            && (places.is_exact || steps[left.step as usize].key == steps[right.step as usize].key)
    };
    let rows: f64 = order.iter().map(|step| f64::from(step.range_rows) + f64::from(step.equal_rows)).sum();
    // What a step weighs that is a candidate, however many there are.
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
            let step = steps[same[0].step as usize];
            builder.push_range(range, &step.key, step.value.as_deref(), equal_rows);
            range = Range::default();
        } else {
            range = range.with(Range::of_value(equal_rows));
        }
    }
    let empty = |step: Step| Target {
        place: number_at(&step.key, places.common),
        step: Step { range_rows: 0.0, equal_rows: 0.0, distinct_range_rows: 0.0, ..step },
        distinct: 0.0,
        sum: 0.0,
        most: 0.0,
        group_end: 0,
    };
    builder.finish().steps.into_iter().filter(|step| step.value.is_some()).map(empty).collect()
}

/// Distributes one histogram's rows among the targets, of which the first is not above its first key, nor the last
/// below its last.
fn spread(steps: &[Step], places: &[u64], targets: &mut [Target]) {
    let (Some(first_place), Some(last_place)) = (places.first(), places.last()) else { return };
    // The target at or above the step that is looked at; targets before it are done.
    let mut at = targets.partition_point(|target| {
        target.place < *first_place || (target.place == *first_place && target.step.key < steps[0].key)
    });
    // What goes to the range of `targets[at]`.
    let mut pending = Pending { rows: 0.0, distinct: 0.0, from: *first_place };
    for (index, (step, place)) in steps.iter().zip(places).enumerate() {
        let mut left = Range::even(step.range_rows, step.distinct_range_rows);
        // The share of the range that is left: from 0 to 1 as targets pass.
        let mut reached = 0.0;
        while is_below(&targets[at], *place, step) {
            let before = index.checked_sub(1).map(|before| (&steps[before], places[before]));
            let share = before.map_or(1.0, |before| share_below(before, &targets[at], (step, *place)));
            let target = &mut targets[at];
            // The values strictly below the target, the target's own, and those above.
            let below = (step.values_below(share, false) - step.values_below(reached, true)).max(0.0);
            let average = step.average();
            let below = below.min(left.distinct);
            let own = (left.distinct - below).clamp(0.0, 1.0);
            let below_rows = (below * average).min(left.rows);
            let own_rows = (own * average).min(left.rows - below_rows);
            pending.add(below_rows, below);
            pending.flush(target, target.place);
            target.step.equal_rows += own_rows;
            left.rows -= below_rows + own_rows;
            left.distinct -= below + own;
            reached = share;
            at += 1;
        }
        pending.add(left.rows, left.distinct);
        if targets[at].place == *place && targets[at].step.key == step.key {
            pending.flush(&mut targets[at], *place);
            targets[at].step.equal_rows += step.equal_rows;
            at += 1;
        } else {
            pending.add(step.equal_rows, f64::from(u8::from(step.equal_rows > 0.0)));
        }
    }
    if let Some(target) = targets.get_mut(at) {
        pending.flush(target, *last_place);
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

fn is_below(target: &Target, place: u64, step: &Step) -> bool {
    target.place < place || (target.place == place && target.step.key < step.key)
}

/// Where in a range a target lies.
fn share_below(low: (&Step, u64), target: &Target, high: (&Step, u64)) -> f64 {
    // Places that are far enough from each other say it; keys that differ late are looked at more closely.
    let width = high.1 - low.1;
    if width >= 1 << 20 {
        return (target.place - low.1) as f64 / width as f64;
    }
    position(&low.0.key, &target.step.key, &high.0.key)
}

#[cfg(test)]
mod tests;
