//! Pages as text: well-formed, of one piece, and no larger than can be looked at.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use neuron_page::{Block, Cell, HbmMap, Layout, MOST_PIECES, MOST_ROWS, Page, Point, Pool, Table};

/// Elements that have no end.
const EMPTY: [&str; 2] = ["meta", "input"];

/// Names of the elements, in order; panics unless all are closed in the right order and all
/// attributes are quoted. Script and style are not looked into.
fn elements(html: &str) -> Vec<String> {
    let (mut open, mut all) = (Vec::new(), Vec::new());
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some((text, behind)) = rest.split_once('<') {
        assert!(!text.contains('>'), "{text}");
        let mut quoted = false;
        let end = behind.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let (tag, behind) = behind.split_at(end.unwrap());
        assert!(tag.split('"').step_by(2).all(|part| !part.contains(['<', '\''])), "{tag}");
        rest = &behind[1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split(' ').next().unwrap().to_owned();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()), "{tag}");
        all.push(name.clone());
        if name == "script" || name == "style" {
            rest = rest.split_once(&format!("</{name}>")).unwrap().1;
        } else if !EMPTY.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty() && !rest.contains('>'), "{open:?}");
    all
}

#[test]
fn pages_are_well_formed_whatever_is_in_them() {
    let elements_of = |page: &Page| elements(&page.html());
    assert_eq!(elements_of(&common::full()), elements_of(&common::hostile()), "text makes no elements");
    elements_of(&Page::default());
}

#[test]
fn pages_are_of_one_piece() {
    for page in [common::full(), common::hostile(), Page::default()] {
        let html = page.html();
        let known = elements(&html);
        for element in [
            "img", "link", "iframe", "object", "embed", "base", "a", "form", "audio", "video", "use", "image",
        ] {
            assert!(!known.iter().any(|name| name == element), "{element}");
        }
        assert_eq!(known.iter().filter(|name| *name == "script").count(), 1);
        assert!(html.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"));
    }
    let html = common::full().html();
    for outside in ["http:", "https:", "//", "src=", "href=", "@import", "url("] {
        let found = html.match_indices(outside).map(|(place, _)| &html[place.saturating_sub(30)..place + 30]);
        // Comments of the script.
        let found: Vec<_> = found.filter(|text| outside != "//" || !text.contains("  // ")).collect();
        assert!(found.is_empty(), "{outside}: {found:?}");
    }
}

#[test]
fn hostile_text_is_escaped_wherever_it_stands() {
    let html = common::hostile().html();
    assert!(!html.contains("<img") && !html.contains("<b>") && !html.contains("onerror=\""), "markup");
    assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (1, 1));
    assert!(html.matches("&lt;/title&gt;&lt;/script&gt;&lt;img src=x onerror=&quot;").count() > 100);
}

#[test]
fn what_is_too_much_is_bounded_and_said_to_be() {
    let block = |place: u64| Block {
        from: place << 16,
        bytes: 1 << 12,
        category: format!("category {}", place % 40),
        owner: "core 0".into(),
        hint: "x".repeat(10_000),
    };
    let layout = Layout::Addresses {
        pools: vec![Pool { name: "main".into(), from: 0, bytes: 16 << 30 }],
        blocks: (0..200_000).map(block).collect(),
    };
    let page = Page {
        hbms: vec![HbmMap::new(layout); 1],
        owners: Some(Table { rows: vec![vec![Cell::Count(1)]; 10_000], ..Table::default() }),
        ..Page::default()
    };
    let html = page.html();
    elements(&html);
    assert!(html.contains("200,000 blocks are drawn as"), "merged without a word");
    // Rows of the map cut some, and have a ground each.
    assert!(html.matches("<rect").count() <= MOST_PIECES + 200, "{}", html.matches("<rect").count());
    assert!(html.contains("The first 2,000 of 10,000 are listed."));
    assert_eq!(html.matches("<td class=\"number\">1</td>").count(), MOST_ROWS);
    assert!(html.len() < 8 << 20, "{} bytes", html.len());
}

#[test]
fn sizes_at_their_limits_are_drawn() {
    let pool = Pool { name: String::new(), from: u64::MAX - 10, bytes: u64::MAX };
    let block = |from, bytes| Block {
        from,
        bytes,
        category: String::new(),
        owner: String::new(),
        hint: String::new(),
    };
    let blocks = vec![block(0, u64::MAX), block(u64::MAX, u64::MAX), block(5, 0)];
    let mut page = common::full();
    page.hbms = vec![
        HbmMap::new(Layout::Addresses { pools: vec![pool.clone(), Pool { from: 0, ..pool }], blocks }),
        HbmMap::new(Layout::Addresses { pools: Vec::new(), blocks: Vec::new() }),
        HbmMap::new(Layout::Shares {
            shares: vec![neuron_page::Share { category: "a".into(), bytes: u64::MAX, tol: u64::MAX }; 3],
            used: (u64::MAX, u64::MAX),
            size: Some(0),
        }),
    ];
    let timeline = page.timeline.as_mut().unwrap();
    timeline.points =
        vec![Point { at: u64::MAX, bytes: vec![u64::MAX; 3] }, Point { at: 0, bytes: Vec::new() }];
    elements(&page.html());
}
