//! Figures that a bench has written.

use std::collections::HashSet;
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Content of a figure, besides axes.
pub struct Figure {
    /// Colours in its legend.
    pub series: usize,
    pub bars: usize,
    pub lines: usize,
    /// Every text: title, conditions, legend, titles and numbers of the axes.
    pub texts: Vec<String>,
}

impl Figure {
    /// Reads `NAME.svg`, which must be well-formed SVG.
    pub fn read(folder: &Path, name: &str) -> Self {
        let svg = std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
        let mut reader = Reader::from_str(&svg);
        let (mut open, mut rectangles, mut lines, mut texts) = (vec![], vec![], 0, vec![]);
        let mut colours = HashSet::new();
        loop {
            let event = reader.read_event().unwrap_or_else(|error| panic!("{name}: {error}"));
            let attribute = |element: &BytesStart<'_>, name: &str| {
                let found = element.attributes().map(|attribute| attribute.unwrap());
                let found = found.into_iter().find(|attribute| attribute.key.as_ref() == name.as_bytes());
                found.map(|attribute| String::from_utf8(attribute.value.to_vec()).unwrap()).unwrap_or_default()
            };
            match event {
                Event::Start(element) => {
                    let name_of_element = element.name().as_ref().to_vec();
                    assert!(!open.is_empty() || name_of_element == b"svg", "{name} is no SVG");
                    open.push(name_of_element);
                }
                Event::End(_) => drop(open.pop().unwrap()),
                Event::Empty(element) => match element.name().as_ref() {
                    b"rect" => rectangles.push(attribute(&element, "fill")),
                    b"polyline" if attribute(&element, "stroke-width") == "2" => {
                        lines += 1;
                        colours.insert(attribute(&element, "stroke"));
                    }
                    _ => {}
                },
                Event::Text(found) => texts.push(found.decode().unwrap().trim().to_owned()),
                Event::Eof => break,
                _ => {}
            }
        }
        assert!(open.is_empty(), "{name} leaves {open:?} open");
        texts.retain(|text| !text.is_empty());
        rectangles.retain(|fill| fill != "#FFFFFF");
        colours.extend(rectangles.iter().cloned());
        // One rectangle for each series is its legend entry.
        let series = colours.len();
        Self { series, bars: rectangles.len() - series, lines, texts }
    }
}
