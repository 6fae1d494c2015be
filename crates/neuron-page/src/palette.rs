//! A colour for each category, the same in all pictures of a page: the largest first. Those beyond
//! the colours share one. Colours are classes of `style.css`.

use std::collections::HashMap;

use crate::html::Html;
use crate::model::{Layout, Page};

/// Classes of colours; the last is for all other categories.
const CLASSES: [&str; 12] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11"];

/// Which category has which colour.
#[derive(Debug)]
pub(crate) struct Palette(HashMap<String, usize>);

impl Palette {
    pub(crate) fn of(page: &Page) -> Self {
        let mut sums: HashMap<&str, u64> = HashMap::new();
        let mut add = |category, bytes: u64| {
            let sum: &mut u64 = sums.entry(category).or_default();
            *sum = sum.saturating_add(bytes);
        };
        for map in &page.hbms {
            match &map.layout {
                Layout::Addresses { blocks, .. } => {
                    blocks.iter().for_each(|block| add(&block.category, block.bytes));
                }
                Layout::Shares { shares, .. } => {
                    shares.iter().for_each(|share| add(&share.category, share.bytes));
                }
            }
        }
        for category in page.timeline.iter().flat_map(|timeline| &timeline.categories) {
            add(category, 0);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|(one, bytes), (other, others)| others.cmp(bytes).then_with(|| one.cmp(other)));
        Self(sums.into_iter().enumerate().map(|(place, (name, _))| (name.to_owned(), place)).collect())
    }

    /// The class of a category.
    pub(crate) fn class(&self, category: &str) -> &'static str {
        let place = self.0.get(category).copied().unwrap_or(usize::MAX);
        CLASSES.get(place).or(CLASSES.last()).copied().unwrap_or_default()
    }

    /// A square of the colour, and the category's name.
    pub(crate) fn swatch(&self, category: &str, html: &mut Html) {
        html.raw("<i class=\"swatch ").raw(self.class(category)).raw("\"></i>").text(category);
    }
}
