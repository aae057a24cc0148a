//! Suggestions for misspelt names, by edit distance.

/// The most similar candidate, ignoring case, if it is within a few typing errors: none for names of up to 2
/// characters, 1 up to 5, 2 up to 8, else 3.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let measured = candidates.into_iter().map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    let most = match name.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    (distance <= most).then_some(candidate)
}

/// Limit on compared characters.
const CHARACTERS_MAX: usize = 64;

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(CHARACTERS_MAX).collect();
    let to: Vec<char> = to.chars().take(CHARACTERS_MAX).collect();
    let mut before: Vec<usize> = vec![];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let cell = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
    let mut previous = None;
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (cell(&last, j) + usize::from(a != b)).min(cell(&last, j + 1) + 1).min(cell(&row, j) + 1);
            let swapped = j.checked_sub(1).filter(|k| previous == Some(b) && to.get(*k) == Some(a));
            if let Some(k) = swapped {
                least = least.min(cell(&before, k) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
        previous = Some(a);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let known = ["price", "quantity", "Day", "id"];
        for (name, expected) in [
            ("prise", Some("price")),
            ("pirce", Some("price")),
            ("PRICE", Some("price")),
            ("quantty", Some("quantity")),
            ("day", Some("Day")),
            ("ix", None),
            ("customer", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }

    #[test]
    fn distances() {
        for (from, to, expected) in
            [("", "", 0), ("", "ab", 2), ("abc", "acb", 1), ("abc", "abd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
