//! Ordinary least squares with coefficients that are not negative.

/// Maximum number of coefficients: a regression is solved for every subset of them.
const COEFFICIENTS_MAX: usize = 10;
/// Share of a column's squared length below which the part that other columns do not explain counts as rounding error.
const COLLINEAR: f64 = 1e-9;

/// The coefficients, none of them negative, that minimize the sum of squared differences between `targets` and `rows` times
/// the coefficients. `None` without rows, with rows of different lengths, more than ten coefficients, or numbers that are not finite.
///
/// The constrained optimum is the unconstrained optimum over those coefficients that are positive in it. There are few
/// coefficients, so all subsets of them are tried: the best one without a negative coefficient is the exact answer. If
/// columns are multiples of each other, the first one gets the coefficient.
///
/// O(2^n (n^3 + n m)) for n coefficients and m rows.
pub fn least_squares(rows: &[Vec<f64>], targets: &[f64]) -> Option<Vec<f64>> {
    let count = rows.first()?.len();
    let is_finite = rows.iter().flatten().chain(targets).all(|number| number.is_finite());
    if count > COEFFICIENTS_MAX || rows.len() != targets.len() || !is_finite {
        return None;
    }
    if rows.iter().any(|row| row.len() != count) {
        return None;
    }
    // Columns are scaled to length 1, because bytes and seconds differ by many orders of magnitude.
    let scales: Vec<f64> = (0..count).map(|column| length(values(rows, column))).collect();
    let scaled = |column: usize| {
        let scale = scales.get(column).copied().unwrap_or(0.0);
        values(rows, column).map(move |value| if scale > 0.0 { value / scale } else { 0.0 })
    };
    let product = |a: usize, b: usize| scaled(a).zip(scaled(b)).map(|(a, b)| a * b).sum::<f64>();
    let products: Vec<Vec<f64>> = (0..count).map(|a| (0..count).map(|b| product(a, b)).collect()).collect();
    let moments: Vec<f64> = (0..count).map(|a| scaled(a).zip(targets).map(|(a, target)| a * target).sum()).collect();

    let mut best: Option<(f64, Vec<f64>)> = None;
    for subset in 0..1_u32 << count {
        let columns: Vec<usize> = (0..count).filter(|column| subset & (1 << column) != 0).collect();
        let Some(solution) = solve(&columns, &products, &moments) else { continue };
        if solution.iter().any(|coefficient| *coefficient < 0.0) {
            continue;
        }
        let mut all = vec![0.0; count];
        for (column, coefficient) in columns.iter().zip(&solution) {
            if let (Some(place), Some(scale)) = (all.get_mut(*column), scales.get(*column)) {
                *place = coefficient / scale;
            }
        }
        let error = rows.iter().zip(targets).map(|(row, target)| (dot(row, &all) - target).powi(2)).sum::<f64>();
        // Fewer of the same columns are tried first, and stay unless the error falls by more than rounding.
        if best.as_ref().is_none_or(|(least, _)| error < least * (1.0 - 1e-9)) {
            best = Some((error, all));
        }
    }
    best.map(|(_, coefficients)| coefficients)
}

/// The slope of the least-squares line through the origin; `None` if it would not be positive.
pub fn slope(points: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (rows, targets): (Vec<_>, Vec<_>) = points.into_iter().map(|(x, y)| (vec![x], y)).unzip();
    least_squares(&rows, &targets)?.first().copied().filter(|slope| *slope > 0.0)
}

/// The dot product.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn values(rows: &[Vec<f64>], column: usize) -> impl Iterator<Item = f64> {
    rows.iter().filter_map(move |row| row.get(column).copied())
}

fn length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// Solves the normal equations of some columns by elimination with the largest pivot first; `None` if the columns are
/// collinear, in which case a subset of them fits as well.
fn solve(columns: &[usize], products: &[Vec<f64>], moments: &[f64]) -> Option<Vec<f64>> {
    let mut system: Vec<Vec<f64>> = vec![];
    for row in columns {
        let of_row = products.get(*row)?;
        let mut equation: Vec<f64> = columns.iter().filter_map(|column| of_row.get(*column).copied()).collect();
        equation.push(moments.get(*row).copied()?);
        system.push(equation);
    }
    let mut left: Vec<usize> = (0..columns.len()).collect();
    let mut solved: Vec<(usize, Vec<f64>)> = vec![];
    while !left.is_empty() {
        let pivot_of = |unknown: &usize| system.get(*unknown)?.get(*unknown).copied();
        // The matrix is symmetric and positive semidefinite, so its largest element is on the diagonal.
        let (at, unknown) = left
            .iter()
            .copied()
            .enumerate()
            .max_by(|(_, a), (_, b)| pivot_of(a).unwrap_or(0.0).total_cmp(&pivot_of(b).unwrap_or(0.0)))?;
        let equation = system.get(unknown)?.clone();
        let pivot = equation.get(unknown).copied().filter(|pivot| *pivot > COLLINEAR)?;
        left.swap_remove(at);
        for other in &left {
            let row = system.get_mut(*other)?;
            let factor = row.get(unknown)? / pivot;
            row.iter_mut().zip(&equation).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
        }
        solved.push((unknown, equation));
    }
    let mut solution = vec![0.0; columns.len()];
    for (unknown, equation) in solved.iter().rev() {
        let known: f64 = equation.iter().zip(&solution).map(|(factor, value)| factor * value).sum();
        let value = (equation.last()? - known) / equation.get(*unknown)?;
        *solution.get_mut(*unknown)? = value;
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f64], expected: &[f64]) {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1e-12);
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(close), "{found:?} {expected:?}");
    }

    /// A reproducible sequence of numbers between 0 and 1.
    fn numbers(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        }
    }

    #[test]
    fn known_coefficients_are_found_whatever_their_sizes() {
        let mut next = numbers(1);
        let expected = [0.01, 4e-8, 1.0 / 2e9, 1e-9];
        let rows: Vec<Vec<f64>> = (0..50).map(|_| vec![1.0, 1e8 * next(), 1e9 * next(), 1e7 * next()]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| dot(row, &expected)).collect();
        near(&least_squares(&rows, &targets).unwrap(), &expected);
    }

    #[test]
    fn noise_averages_out() {
        let mut next = numbers(2);
        let rows: Vec<Vec<f64>> = (0..2000).map(|_| vec![1.0, 10.0 * next()]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| dot(row, &[2.0, 3.0]) + next() - 0.5).collect();
        let found = least_squares(&rows, &targets).unwrap();
        assert!((found[0] - 2.0).abs() < 0.05 && (found[1] - 3.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn collinear_columns_share_no_coefficient() {
        let rows: Vec<Vec<f64>> = (1..20).map(f64::from).map(|x| vec![x, 2.0 * x, 1.0]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| 6.0 * row[0] + 5.0).collect();
        let found = least_squares(&rows, &targets).unwrap();
        // Either of the two explains all of it.
        assert!((found[0] + 2.0 * found[1] - 6.0).abs() < 1e-6 && (found[2] - 5.0).abs() < 1e-6, "{found:?}");
        assert!(found[0] == 0.0 || found[1] == 0.0, "{found:?}");
        let same = vec![vec![1.0, 7.0]; 9];
        let found = least_squares(&same, &[14.0; 9]).unwrap();
        assert!((found[0] + 7.0 * found[1] - 14.0).abs() < 1e-9, "{found:?}");
        near(&least_squares(&[vec![0.0, 2.0]], &[4.0]).unwrap(), &[0.0, 2.0]);
    }

    #[test]
    fn no_coefficient_is_negative() {
        // Without the constraint, the answer is 10 - x; with it, a constant.
        let rows: Vec<Vec<f64>> = (0..10).map(|x| vec![1.0, f64::from(x)]).collect();
        let targets: Vec<f64> = (0..10).map(|x| 10.0 - f64::from(x)).collect();
        near(&least_squares(&rows, &targets).unwrap(), &[5.5, 0.0]);
        near(&least_squares(&[vec![1.0], vec![2.0]], &[-1.0, -2.0]).unwrap(), &[0.0]);
        // No neighbour of the answer has a smaller sum.
        let mut next = numbers(3);
        for _ in 0..50 {
            let rows: Vec<Vec<f64>> = (0..12).map(|_| (0..4).map(|_| next() - 0.3).collect()).collect();
            let targets: Vec<f64> = (0..12).map(|_| next() - 0.4).collect();
            let error = |of: &[f64]| rows.iter().zip(&targets).map(|(row, y)| (dot(row, of) - y).powi(2)).sum::<f64>();
            let found = least_squares(&rows, &targets).unwrap();
            assert!(found.iter().all(|coefficient| *coefficient >= 0.0), "{found:?}");
            for column in 0..4 {
                for step in [1e-3, -1e-3] {
                    let mut other = found.clone();
                    other[column] = (other[column] + step).max(0.0);
                    assert!(error(&other) >= error(&found) - 1e-12, "{found:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn invalid_input_has_no_answer() {
        assert_eq!(least_squares(&[], &[]), None);
        assert_eq!(least_squares(&[vec![1.0]], &[1.0, 2.0]), None);
        assert_eq!(least_squares(&[vec![1.0], vec![1.0, 2.0]], &[1.0, 2.0]), None);
        assert_eq!(least_squares(&[vec![f64::NAN]], &[1.0]), None);
        assert_eq!(least_squares(&[vec![1.0; 11]], &[1.0]), None);
        assert!((slope([(1.0, 2.0), (2.0, 4.0)]).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(slope([(0.0, 1.0)]), None);
        assert_eq!(slope([]), None);
    }
}
