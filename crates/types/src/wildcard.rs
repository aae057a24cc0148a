//! Patterns with a wildcard for any sequence: paths, names.

/// Whether all of `text` is what the pattern says, whose stars stand for any sequence and whose other parts for one item
/// that they are (`is`). Only the last star is tried again, because what those before it have taken need not be more: the
/// time is at most the product of the lengths.
pub fn matches_wildcards<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    is: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut next) = (0, 0);
    // Behind the last star, and the first of the text that it has not taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(of_text) = text.get(next) {
        match pattern.get(at) {
            Some(part) if is_star(part) => {
                at += 1;
                star = Some((at, next));
            }
            Some(part) if is(part, of_text) => {
                at += 1;
                next += 1;
            }
            _ => match &mut star {
                Some((behind, taken)) => {
                    *taken += 1;
                    (at, next) = (*behind, *taken);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(is_star)
}
