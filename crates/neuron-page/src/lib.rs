#![forbid(unsafe_code)]
//! What fills device memory, as one HTML page for people: a map of each HBM, a timeline, a table of
//! owners that can be filtered. The page needs nothing else: no network, no other file, and without
//! its script all is still there but the filter.
//!
//! | you look for | go to |
//! |---|---|
//! | what a page shows | [`Page`], [`HbmMap`], [`Timeline`], [`Table`] |
//! | the page | [`Page::html`], `document` |
//! | markup from which nothing foreign breaks out | `html` |
//! | blocks made few enough to draw | `pieces` |
//! | pictures | `map`, `timeline`; colours: `palette`, `style.css` |
//! | the table | `table`, `script.js` |
//!
//! ```
//! use neuron_page::{Block, HbmMap, Layout, Page, Pool};
//!
//! let pools = vec![Pool { name: "main pool".into(), from: 0, bytes: 1 << 30 }];
//! let blocks = vec![Block {
//!     from: 1 << 24,
//!     bytes: 1 << 20,
//!     category: "weights".into(),
//!     owner: "core 0".into(),
//!     hint: "<embed>".into(),
//! }];
//! let hbms = vec![HbmMap { name: "HBM 0".into(), ..HbmMap::new(Layout::Addresses { pools, blocks }) }];
//! let page = Page { title: "one block".into(), hbms, ..Page::default() }.html();
//! assert!(page.contains("&lt;embed&gt;") && !page.contains("<embed>"));
//! ```

mod document;
mod html;
mod map;
mod model;
mod palette;
mod pieces;
mod table;
mod timeline;

pub use model::{
    Axis, Block, Cell, Fact, HbmMap, Layout, Moment, Page, Point, Pool, Share, Table, Timeline, Verdict,
};
pub use pieces::MOST_PIECES;
pub use table::MOST_ROWS;
