//! Points sorted into panels and series.

use super::point::Point;
use crate::bench::median;

/// Everything of one figure, in the order of first appearance.
pub(super) struct Panels<'a, X> {
    /// Names of the series of all panels.
    pub series: Vec<&'a str>,
    /// The charts.
    pub panels: Vec<Panel<'a, X>>,
}

/// One chart.
pub(super) struct Panel<'a, X> {
    pub title: &'a str,
    /// Every x of the panel.
    pub xs: Vec<&'a X>,
    /// Points of one place: index of the series, index in `xs`, values.
    places: Vec<(usize, usize, Vec<f64>)>,
}

impl<'a, X: PartialEq> Panels<'a, X> {
    /// Sorts the finite ones of `points`.
    pub fn new(points: &'a [Point<X>]) -> Self {
        let mut series = vec![];
        let mut panels: Vec<Panel<'a, X>> = vec![];
        for point in points.iter().filter(|point| point.y.is_finite()) {
            let title = point.panel.as_str();
            let number = position(&mut series, point.series.as_str());
            let known = panels.iter().position(|panel| panel.title == title).unwrap_or_else(|| {
                panels.push(Panel { title, xs: vec![], places: vec![] });
                panels.len() - 1
            });
            let Some(panel) = panels.get_mut(known) else { continue };
            let x = position(&mut panel.xs, &point.x);
            match panel.places.iter_mut().find(|(known, at, _)| (*known, *at) == (number, x)) {
                Some((_, _, values)) => values.push(point.y),
                None => panel.places.push((number, x, vec![point.y])),
            }
        }
        Self { series, panels }
    }
}

impl<X> Panel<'_, X> {
    /// Index of the series, index in `xs`, and the median there.
    pub fn medians(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.places.iter().filter_map(|(series, x, values)| Some((*series, *x, median(values)?)))
    }

    /// Index of the series, index in `xs`, and each value there.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        self.places.iter().flat_map(|(series, x, values)| values.iter().map(|value| (*series, *x, *value)))
    }

    /// Indices of the series that have a value here, in order.
    pub fn series(&self) -> Vec<usize> {
        let mut series: Vec<usize> = self.places.iter().map(|(series, _, _)| *series).collect();
        series.sort_unstable();
        series.dedup();
        series
    }
}

/// Index of `item` in `items`, to which it is added if necessary.
fn position<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_order_and_have_medians() {
        let point = |panel: &str, series: &str, x: f64, y: f64| Point::<f64>::new(panel, series, x, y);
        let points = [
            point("b", "eager", 1.0, 5.0),
            point("a", "no", 0.5, 1.0),
            point("b", "eager", 1.0, 1.0),
            point("b", "no", 0.5, f64::NAN),
            point("b", "eager", 1.0, 2.0),
            point("b", "no", 0.1, 7.0),
        ];
        let Panels { series, panels } = Panels::new(&points);
        assert_eq!(series, ["eager", "no"]);
        assert_eq!(panels.iter().map(|panel| panel.title).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(panels[0].xs, [&1.0, &0.1]);
        assert_eq!(panels[0].medians().collect::<Vec<_>>(), [(0, 0, 2.0), (1, 1, 7.0)]);
        assert_eq!((panels[0].series(), panels[1].series()), (vec![0, 1], vec![1]));
    }
}
