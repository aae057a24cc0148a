//! Zipf distribution by rejection-inversion.

use thermocline_transactions::random::Random;

/// Draws ranks 1 to `n` with probabilities proportional to `1 / rank^s`.
///
/// Rejection-inversion (Hörmann and Derflinger 1996): exact for every `s >= 0`, also at 1, in constant time
/// and without a table; 0 is the uniform distribution.
#[derive(Debug, Clone, Copy)]
pub struct Zipf {
    n: f64,
    s: f64,
    /// `H(1.5) - h(1)`, where the area below the hat begins.
    from: f64,
    /// `H(n + 0.5)`, where it ends.
    to: f64,
    /// Ranks this close above the drawn point are accepted without evaluating the hat.
    squeeze: f64,
}

impl Zipf {
    /// The distribution of `n` ranks, at least one, with exponent `s`, not negative.
    pub fn new(n: u64, s: f64) -> Self {
        let n = n.max(1) as f64;
        let from = integral(s, 1.5) - 1.0;
        let squeeze = 2.0 - integral_inverse(s, integral(s, 2.5) - hat(s, 2.0));
        Self { n, s, from, to: integral(s, n + 0.5), squeeze }
    }

    /// A rank, from 1.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            // 53 bits, uniform in [0, 1).
            let uniform = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let area = self.to + uniform * (self.from - self.to);
            let point = integral_inverse(self.s, area);
            let rank = point.round().clamp(1.0, self.n);
            if rank - point <= self.squeeze || area >= integral(self.s, rank + 0.5) - hat(self.s, rank) {
                return rank as u64;
            }
        }
    }
}

/// h(x) = x^-s.
fn hat(s: f64, x: f64) -> f64 {
    (-s * x.ln()).exp()
}

/// H(x) = (x^(1-s) - 1) / (1 - s), and ln x at s = 1.
fn integral(s: f64, x: f64) -> f64 {
    let log = x.ln();
    exp_m1_over((1.0 - s) * log) * log
}

fn integral_inverse(s: f64, x: f64) -> f64 {
    // Rounding may bring it a little below -1, where there is no logarithm.
    let t = (x * (1.0 - s)).max(-1.0);
    (ln_1p_over(t) * x).exp()
}

/// (e^x - 1) / x, also near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, also near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-squared against the exact probabilities, for every exponent that is used, and for 1 and its
    /// neighbours, where formulas with 1 - s in a denominator fail.
    #[test]
    fn frequencies_are_those_of_the_distribution() {
        const N: usize = 50;
        const DRAWS: u32 = 200_000;
        for (seed, s) in [0.0, 0.5, 0.75, 0.99, 1.0 - 1e-12, 1.0, 1.0 + 1e-9, 1.25, 1.5].into_iter().enumerate() {
            let mut random = Random::new(seed as u64);
            let zipf = Zipf::new(N as u64, s);
            let mut seen = [0_u32; N];
            (0..DRAWS).for_each(|_| seen[zipf.draw(&mut random) as usize - 1] += 1);
            let weights: Vec<f64> = (1..=N).map(|rank| (rank as f64).powf(-s)).collect();
            let total: f64 = weights.iter().sum();
            let chi_squared: f64 = seen
                .iter()
                .zip(&weights)
                .map(|(seen, weight)| {
                    let expected = f64::from(DRAWS) * weight / total;
                    (f64::from(*seen) - expected).powi(2) / expected
                })
                .sum();
            // 49 degrees of freedom: more than 94 once in ten thousand.
            assert!(chi_squared < 94.0, "s = {s}: {chi_squared}");
        }
    }

    #[test]
    fn ranks_stay_within_bounds() {
        let mut random = Random::new(1);
        for n in [1, 2, 3, 1 << 40] {
            for s in [0.0, 1.0, 1.5, 20.0] {
                let zipf = Zipf::new(n, s);
                assert!((0..1000).all(|_| (1..=n).contains(&zipf.draw(&mut random))), "{n} {s}");
            }
        }
    }
}
