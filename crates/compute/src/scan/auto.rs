//! Mode `auto`: the routes by which all partitions are expected to be done soonest, and loads that pay for themselves.

use thermocline_pushdown::Route;

use super::bitmap::Choice;
use super::candidate::Candidate;
use super::costing::Costing;
use crate::model::{Cost, Credit, Load, Options, ScanTime, Terms, balance};

/// Share of a scan's time by which loads of columns that were not asked for before may lengthen it: a link that would be
/// idle costs nothing. Columns that were asked for before are expected to be asked for as often again, so that a load is
/// made once what it would have saved so far exceeds what it costs (rent or buy, which costs at most twice as much as knowing
/// the future).
const UNKNOWN_SHARE: f64 = 0.03;
/// The same for loads that are paid from [`Credit`]: somebody waits for the scan.
const KNOWN_SHARE: f64 = 0.7;
/// Largest ratio of the time that a scan took without a cache to that of its work now, or the other way round.
const KNOWN_RATIO_MAX: f64 = 16.0;
/// Share of its expected time that a fragment is given where storage has never run it and what would be fetched instead
/// finds no room in the cache: it may take half or twice as long as expected, and only trying tells. What is fetched once
/// more tells nothing.
const UNTRIED_SHARE: f64 = 0.5;

/// Seconds that a scan is expected to take, for `EXPLAIN`.
#[derive(Debug, Clone, Default)]
pub(super) struct Estimates {
    /// With every partition that has it on this route, the others as they must.
    pub(super) by_route: Vec<(Route, f64)>,
    /// Expected time of the routes chosen, and what it is compared with.
    pub(super) time: ScanTime,
    /// The time if all partitions that are open are pushed down, and if the columns of all are fetched, as the model
    /// estimates it without corrections; `None` if there are others.
    pub(super) all_pushed: Option<f64>,
    pub(super) all_fetched: Option<f64>,
    /// Whether it is known what the fragment takes here.
    pub(super) has_run_here: bool,
}

impl Estimates {
    /// Notes the `routes` that were taken in the end.
    pub(super) fn taken(&mut self, mut routes: impl Iterator<Item = Route> + Clone) {
        self.all_pushed = self.all_pushed.filter(|_| routes.clone().all(|route| route == Route::Pushdown));
        self.all_fetched =
            self.all_fetched.filter(|_| routes.all(|route| matches!(route, Route::Load | Route::Pullup)));
    }

    /// Corrects the cost of loads when the cache admits only `share` of them.
    pub(super) fn load_share(&mut self, share: f64) {
        self.time.loads *= share;
        self.time.work_of_loads *= share;
    }
}

/// What to do with a partition.
#[derive(Debug, Clone)]
pub(super) enum Preference {
    /// This, whatever the cache has room for.
    Take(Choice),
    /// Load its columns, or this if the cache does not admit them.
    LoadOr(Choice),
}

/// One partition's routes beside `local`.
struct Routes {
    storage: usize,
    /// The route that leaves work to storage, and its cost.
    there: Option<(Choice, Cost)>,
    /// Cost of fetching columns.
    here: Cost,
    /// Cost once all columns are cached.
    local: Cost,
    /// How often its columns may be taken to have been asked for before; `None` if they cannot be cached.
    uses: Option<u64>,
    /// Whether all columns are cached, some of them as stored bytes.
    lacks_none: bool,
    /// Share of its expected time that `there` is given to be tried.
    there_share: f64,
}

impl Routes {
    fn options(&self) -> Options {
        let there = self.there.iter().map(|(_, cost)| cost.times(self.there_share));
        Options { storage: self.storage, costs: there.chain([self.here]).collect() }
    }

    /// Cost of option `number`.
    fn cost(&self, number: usize) -> Cost {
        match &self.there {
            Some((_, there)) if number == 0 => *there,
            _ => self.here,
        }
    }

    /// Whether option `number` of [`Routes::options`] fetches columns.
    fn fetches(&self, number: usize) -> bool {
        number == usize::from(self.there.is_some())
    }
}

/// Prefers a route for every partition. Loads may spend [`Credit`] on these `terms`.
pub(super) fn choose(
    costing: &Costing<'_>,
    candidates: &[Candidate<'_>],
    terms: &Terms,
) -> (Vec<Preference>, Estimates) {
    // Those that are cached or found by an index are what they are.
    let mut empty = costing.nothing();
    let mut open = vec![];
    for candidate in candidates {
        match candidate.fixed() {
            Some(Choice::Local) => empty.add(costing.storage(candidate.object), &costing.local(candidate.partition)),
            Some(_) => {}
            None => open.push(routes(costing, candidate)),
        }
    }

    let options: Vec<Options> = open.iter().map(Routes::options).collect();
    let choices = balance(&empty, &options);
    let mut balanced = empty.clone();
    open.iter().zip(&choices).for_each(|(routes, choice)| balanced.add(routes.storage, &routes.cost(*choice)));
    let by_route = uniform(&empty, &open);
    let mut load = costing.nothing();
    // What an index finds costs the same without a cache.
    for Candidate { object, partition, .. } in candidates.iter().filter(|candidate| !candidate.by_index) {
        load.add(costing.storage(object), &costing.without_cache(object, partition));
    }
    let by_index = candidates.iter().any(|candidate| candidate.by_index);
    // What the scan took without a cache tells how its time relates to that of its work, better than other scans do.
    let work = balanced.seconds();
    let without_cache = load.seconds().max(work);
    let known = costing.uncached().map(|ratio| ratio.clamp(1.0 / KNOWN_RATIO_MAX, KNOWN_RATIO_MAX));
    let terms = Terms { uncached: known.unwrap_or(terms.uncached), ..*terms };
    let limits = Limits::new(work, without_cache, &terms);
    let invested = invest(&mut balanced, &choices, &open, &limits);
    let work_of_loads = (balanced.seconds() - work).max(0.0);
    let time = ScanTime {
        without_cache: without_cache * terms.uncached,
        before_loads: work * terms.uncached,
        loads: work_of_loads * terms.loads,
        work,
        work_of_loads,
        is_uncached: false,
        by_index,
    };
    let all = |route, ratio: f64| {
        let seconds = by_route.iter().find(|(known, _)| *known == route).map(|(_, seconds)| seconds / ratio);
        seconds.filter(|_| open.len() == candidates.len())
    };
    let all_pushed = all(Route::Pushdown, costing.pushed_ratio());
    let all_fetched = all(Route::Load, costing.fetched_ratio());
    let by_route = by_route.iter().map(|(route, seconds)| (*route, seconds * terms.uncached)).collect();
    let mut open = open.into_iter().zip(choices).zip(invested);
    let preference = |candidate: &Candidate<'_>| {
        if let Some(choice) = candidate.fixed() {
            return Preference::Take(choice);
        }
        let Some(((routes, choice), invested)) = open.next() else { return Preference::Take(Choice::Pullup) };
        let fetches = routes.fetches(choice);
        match (routes.there, routes.uses) {
            _ if (fetches || invested) && routes.lacks_none => Preference::Take(Choice::Local),
            (_, Some(_)) if fetches => Preference::LoadOr(Choice::Pullup),
            (Some((there, _)), _) if !fetches && invested => Preference::LoadOr(there),
            (Some((there, _)), _) if !fetches => Preference::Take(there),
            _ => Preference::Take(Choice::Pullup),
        }
    };
    let preferences: Vec<Preference> = candidates.iter().map(preference).collect();
    let is_uncached = candidates.iter().all(|candidate| candidate.fixed().is_none())
        && preferences.iter().all(|it| matches!(it, Preference::Take(Choice::Pushdown | Choice::Pullup)));
    let (time, has_run_here) = (ScanTime { is_uncached, ..time }, costing.has_run_here());
    (preferences, Estimates { by_route, time, all_pushed, all_fetched, has_run_here })
}

fn routes(costing: &Costing<'_>, candidate: &Candidate<'_>) -> Routes {
    let Candidate { object, partition, .. } = candidate;
    let missing = candidate.missing();
    let here = costing.fetched(object, partition, (&missing, &candidate.stored()), candidate.uses_cache);
    let local = costing.local(partition);
    let pushed = |fetched| costing.pushed(object, partition, Some(fetched));
    let there = match candidate.otherwise() {
        Choice::Pullup => None,
        Choice::Bitmap(plan) => {
            let mut cost = pushed(&here);
            // It decodes fewer columns, and this side evaluates its part.
            let there: Vec<usize> = plan.there.iter().filter_map(|at| candidate.needed.get(*at).copied()).collect();
            let all = partition.decoding_bytes(candidate.needed).max(1);
            cost.storage_s *= partition.decoding_bytes(&there) as f64 / all as f64;
            cost.here_s += local.here_s;
            Some((Choice::Bitmap(plan), cost))
        }
        choice => Some((choice, pushed(&here))),
    };
    let there = there.map(|(choice, cost)| (choice, cost.times(costing.pushed_ratio())));
    let is_tried = !costing.is_unseen() || candidate.has_room;
    Routes {
        storage: costing.storage(object),
        there,
        here: here.times(costing.fetched_ratio()),
        local,
        uses: (candidate.uses_cache && (!missing.is_empty() || candidate.has_room)).then_some(candidate.uses),
        lacks_none: missing.is_empty(),
        there_share: if is_tried { 1.0 } else { UNTRIED_SHARE },
    }
}

/// Seconds with every partition at storage where it may, and with every one fetched.
fn uniform(empty: &Load, open: &[Routes]) -> Vec<(Route, f64)> {
    let seconds = |cost_of: fn(&Routes) -> Cost| {
        let mut load = empty.clone();
        open.iter().for_each(|routes| load.add(routes.storage, &cost_of(routes)));
        load.seconds()
    };
    if open.is_empty() {
        return vec![(Route::Local, empty.seconds())];
    }
    let mut by_route = vec![];
    if open.iter().any(|routes| routes.there.is_some()) {
        by_route
            .push((Route::Pushdown, seconds(|routes| routes.there.as_ref().map_or(routes.here, |(_, cost)| *cost))));
    }
    by_route.push((Route::Load, seconds(|routes| routes.here)));
    by_route
}

/// Seconds that a scan's work may take with its loads.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Loads of columns that were not asked for before.
    unknown: f64,
    /// Loads of others.
    known: f64,
    /// What a second of the work of loads costs, in seconds of other work.
    price: f64,
}

impl Limits {
    /// Those of a scan whose work takes `work` seconds without loads, and `without_cache` without a cache.
    fn new(work: f64, without_cache: f64, terms: &Terms) -> Self {
        let Terms { credit_s, is_in_debt, uncached, loads } = *terms;
        let before = work * uncached;
        // What the cache saves this scan pays for its loads; so does credit, up to a share of its time.
        let own = without_cache * uncached * (1.0 + Credit::SHARE) - before;
        let (unknown, known) = match is_in_debt {
            true => (0.0, 0.0),
            false => (before * UNKNOWN_SHARE, own.max((own + credit_s).min(before * KNOWN_SHARE))),
        };
        Self { unknown: work + unknown / loads, known: work + known / loads, price: loads / uncached }
    }
}

/// Moves partitions from storage to the cache as long as that pays for itself within `limits`; says which, and leaves
/// their work in `load`.
fn invest(load: &mut Load, choices: &[usize], open: &[Routes], limits: &Limits) -> Vec<bool> {
    let mut invested = vec![false; open.len()];
    // Time that a partition takes alone tells what it saves and costs relative to others.
    let alone = |cost: &Cost, storage: usize| load.alone(storage, cost);
    let mut worth: Vec<(f64, usize)> = open
        .iter()
        .zip(choices)
        .enumerate()
        .filter_map(|(number, (routes, choice))| {
            let (_, there) = routes.there.as_ref().filter(|_| !routes.fetches(*choice))?;
            let uses = routes.uses? + 1;
            let now = alone(there, routes.storage);
            let saved = (now - alone(&routes.local, routes.storage)) * uses as f64;
            let extra = (alone(&routes.here, routes.storage) - now).max(1e-9);
            (saved >= extra * limits.price).then_some((saved / extra, number))
        })
        .collect();
    worth.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (_, number) in worth {
        let Some(routes) = open.get(number) else { continue };
        let Some((_, there)) = &routes.there else { continue };
        let seconds_max = if routes.uses.unwrap_or(0) == 0 { limits.unknown } else { limits.known };
        load.remove(routes.storage, there);
        load.add(routes.storage, &routes.here);
        if load.seconds() <= seconds_max {
            if let Some(invested) = invested.get_mut(number) {
                *invested = true;
            }
        } else {
            load.remove(routes.storage, &routes.here);
            load.add(routes.storage, there);
        }
    }
    invested
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Capacity;

    const STORED: f64 = 1e6;

    /// Partitions that storage answers with little, after a while.
    fn partitions(count: usize, storage_s: f64, uses: u64) -> Vec<Routes> {
        let routes = || Routes {
            storage: 0,
            there: Some((Choice::Pushdown, Cost { link_bytes: 1e3, storage_s, here_s: 0.0 })),
            here: Cost { link_bytes: STORED, storage_s: 0.0, here_s: 0.001 },
            local: Cost { link_bytes: 0.0, storage_s: 0.0, here_s: 0.0005 },
            uses: Some(uses),
            lacks_none: false,
            there_share: 1.0,
        };
        std::iter::repeat_with(routes).take(count).collect()
    }

    /// The number of partitions that are loaded, and the time before and after, over a link of `bytes_per_s` and a storage
    /// with one slot. Without a cache, it would be `without_cache` times the time before; the credit is `credit` times that.
    fn invested(open: &[Routes], bytes_per_s: f64, without_cache: f64, credit: f64) -> (usize, f64, f64) {
        let mut load =
            Load::new(vec![Capacity { bytes_per_s, slots: 1.0, round_trip_s: 0.001, cores_share: 0.0 }], 2.0);
        for routes in open {
            if let Some((_, there)) = &routes.there {
                load.add(0, there);
            }
        }
        let before = load.seconds();
        let terms = Terms { credit_s: before * credit, is_in_debt: false, uncached: 1.0, loads: 1.0 };
        let limits = Limits::new(before, before * without_cache, &terms);
        let invested = invest(&mut load, &vec![0; open.len()], open, &limits);
        (invested.into_iter().filter(|invested| *invested).count(), before, load.seconds())
    }

    #[test]
    fn what_storage_has_never_run_is_tried_where_the_cache_has_no_room() {
        // Storage is expected to take 1.6 times as long as fetching.
        let there = Cost { link_bytes: 1e3, storage_s: 0.016, here_s: 0.0 };
        let here = Cost { link_bytes: 1.25e6, storage_s: 0.0, here_s: 0.0 };
        let capacity = Capacity { bytes_per_s: 125e6, slots: 1.0, round_trip_s: 0.0, cores_share: 0.0 };
        let chosen = |there_share| {
            let mut open = partitions(10, 0.016, 0);
            open.iter_mut().for_each(|routes| {
                *routes = Routes {
                    there: Some((Choice::Pushdown, there)),
                    here,
                    there_share,
                    ..partitions(1, 0.0, 0).remove(0)
                };
            });
            let options: Vec<Options> = open.iter().map(Routes::options).collect();
            let choices = balance(&Load::new(vec![capacity], 2.0), &options);
            let pushed = choices.iter().filter(|choice| **choice == 0).count();
            let seconds: f64 = open.iter().zip(&choices).map(|(routes, choice)| routes.cost(*choice).storage_s).sum();
            (pushed, seconds)
        };
        let (tried, seconds) = chosen(UNTRIED_SHARE);
        assert!(tried > 5, "{tried}");
        assert!((seconds - tried as f64 * 0.016).abs() < 1e-9, "the time that is expected stays: {seconds}");
        assert!(chosen(1.0).0 < 5, "with room, what is fetched is kept");
    }

    #[test]
    fn a_first_query_over_a_slow_link_loads_next_to_nothing() {
        // A load takes 160 ms, storage 10 ms.
        let (loaded, before, after) = invested(&partitions(100, 0.01, 0), 6.25e6, 5.0, 5.0);
        assert_eq!(loaded, 0, "a load does not pay for itself");
        assert_eq!(before, after);
    }

    #[test]
    fn columns_that_come_back_are_loaded_with_what_the_cache_saves() {
        let open = partitions(100, 0.01, 40);
        let mut last = 0;
        for without_cache in [1.0, 1.5, 3.0, 9.0] {
            let (loaded, before, after) = invested(&open, 6.25e6, without_cache, 0.0);
            assert!(loaded > last || loaded == 0 && without_cache == 1.0, "{without_cache}: {loaded} after {last}");
            assert!(after <= before * without_cache * (1.0 + Credit::SHARE), "{without_cache}: {before} {after}");
            last = loaded;
        }
    }

    #[test]
    fn what_earlier_queries_saved_pays_for_loads_a_few_at_a_time() {
        let open = partitions(100, 0.01, 40);
        let (none, ..) = invested(&open, 6.25e6, 1.0, 0.0);
        let (some, before, after) = invested(&open, 6.25e6, 1.0, 0.1);
        let (more, _, most) = invested(&open, 6.25e6, 1.0, 9.0);
        assert!(none < some && some < more, "{none} {some} {more}");
        assert!(
            after <= before * (1.1001 + Credit::SHARE) && most <= before * (1.0 + KNOWN_SHARE),
            "{before} {after} {most}"
        );
    }

    #[test]
    fn debt_ends_loads_and_loads_that_take_longer_than_expected_are_fewer() {
        let open = partitions(100, 0.01, 40);
        let limits = |credit_s, loads| {
            Limits::new(1.0, 1.2, &Terms { credit_s, is_in_debt: credit_s < 0.0, uncached: 1.0, loads })
        };
        let (even, slow, debt) = (limits(0.0, 1.0), limits(0.0, 2.0), limits(-1.0, 1.0));
        let own = 1.2 * (1.0 + Credit::SHARE) - 1.0;
        assert!(
            (even.known - 1.0 - own).abs() < 1e-9 && (slow.known - 1.0 - own / 2.0).abs() < 1e-9,
            "{even:?} {slow:?}"
        );
        assert_eq!((debt.known, debt.unknown), (1.0, 1.0));
        // Storage, which takes half as long as expected, saves half as much.
        let fast = Limits::new(1.0, 1.2, &Terms { credit_s: 0.0, is_in_debt: false, uncached: 0.5, loads: 1.0 });
        assert_eq!(fast.price, 2.0);
        assert!(invested(&open, 6.25e6, 1.2, 0.0).0 > 0);
    }

    #[test]
    fn loads_over_an_idle_link_are_free() {
        // Storage takes 20 s together, the link would take 0.8 s.
        let (loaded, before, after) = invested(&partitions(100, 0.2, 0), 125e6, 1.0, 0.0);
        assert_eq!(loaded, 100, "all are faster here than there");
        assert!(after < before);
    }

    #[test]
    fn columns_that_cannot_be_cached_are_no_investment() {
        let mut open = partitions(10, 0.2, 0);
        open.iter_mut().for_each(|routes| routes.uses = None);
        assert_eq!(invested(&open, 125e6, 2.0, 1.0).0, 0);
    }
}
