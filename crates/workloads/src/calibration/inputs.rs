//! Inputs of the thesis's model for one query (thesis section 4.2).

use thermocline_pushdown::Mode;

use super::regression::dot;

/// Number of parameters besides the overhead: see [`Inputs::work`].
pub const PARAMETERS: usize = 4;

/// Inputs of one query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inputs {
    /// Rows of the partitions.
    pub rows: f64,
    /// S: stored bytes of the columns that the query reads; of text, all of them.
    pub stored_bytes: f64,
    /// h: share of them that is cached.
    pub hit: f64,
    /// r c S / R: bytes of the selected rows in memory.
    pub selected_bytes: f64,
    /// r c S: bytes of the selected rows on the wire, if storage answers for all partitions.
    pub answer_bytes: f64,
}

/// Work of a query on each resource, in units of its parameters.
///
/// ```text
///            LINK                        STORAGE           HERE
/// caching    (1 - h) stored bytes        -                 selected bytes, rows        after equation 4.7
/// pushdown   answer bytes                stored bytes      -                           after equation 4.8
/// hybrid     (1 - h) answer bytes        (1 - h) stored    h selected bytes, h rows    after equation 4.9
/// ```
///
/// The terms in bytes are those of the equations, where S is all of the data and not the columns that are read. Two things
/// differ:
///
/// - The equations have no term in rows. The thesis found that filtering in FlexPushdownDB takes as long as writing its
///   output does, whatever it reads (section 4.2.3); here, finding few rows among many takes time.
/// - Equation 4.9 has two sides, HERE and the sum of STORAGE and LINK, and the longer one counts. Here each of the three
///   resources counts for itself: [`ModeModel`](super::mode_model::ModeModel).
pub type Work = [f64; PARAMETERS];

/// Positions in [`Work`] of each resource's parameters.
pub const RESOURCES: [&[usize]; 3] = [&[0], &[1], &[2, 3]];

impl Inputs {
    /// Its work in a mode.
    pub fn work(&self, mode: Mode) -> Work {
        let Self { rows, stored_bytes, hit, selected_bytes, answer_bytes } = *self;
        let missed = 1.0 - hit;
        match mode {
            Mode::Pushdown => [answer_bytes, stored_bytes, 0.0, 0.0],
            Mode::Hybrid => [missed * answer_bytes, missed * stored_bytes, hit * selected_bytes, hit * rows],
            Mode::Auto | Mode::Caching | Mode::Pullup => [missed * stored_bytes, 0.0, selected_bytes, rows],
        }
    }
}

/// Seconds of each resource for `work`, with `parameters` in the order of [`Work`].
pub fn seconds_of(work: &Work, parameters: &Work) -> [f64; RESOURCES.len()] {
    RESOURCES.map(|positions| {
        let of = |numbers: &Work| -> Vec<f64> { positions.iter().filter_map(|at| numbers.get(*at).copied()).collect() };
        dot(&of(work), &of(parameters))
    })
}
