//! Maps of HBMs: pools in rows of addresses with their blocks and holes, or bars where nobody knows
//! the addresses. Beside each, the same in words and figures.

use std::collections::BTreeMap;

use neuron_dmem::report::figures::{bytes, short, thousands};

use crate::html::Html;
use crate::model::{Block, HbmMap, Layout, Pool, Share};
use crate::palette::Palette;
use crate::pieces::{MOST_PIECES, Piece, What, pieces, sorted};

/// Units of a row's width.
const WIDTH: f64 = 1000.0;
/// Rows of the largest pool at most, and of the others.
const ROWS: (u64, u64) = (16, 4);
/// A row is no less than this.
const LEAST_ROW: u64 = 1 << 16;
/// Holes of a pool that are drawn as such, the largest.
const MOST_HOLES: usize = 100;

/// A pool's addresses that no block covers.
struct Holes(Vec<(u64, u64)>);

impl Holes {
    fn of(pool: &Pool, lie: &[(u64, u64, &Block)]) -> Self {
        let end = pool.from.saturating_add(pool.bytes);
        let mut holes = Vec::new();
        let mut free = pool.from;
        let inside = lie.iter().map(|(from, end, _)| (*from, *end)).chain([(end, end)]);
        for (from, behind) in inside.filter(|(from, behind)| *behind > pool.from && *from <= end) {
            if from > free {
                holes.push((free, from));
            }
            free = free.max(behind);
        }
        Self(holes)
    }

    fn left(&self) -> u64 {
        self.0.iter().map(|(from, end)| end - from).sum()
    }

    fn largest(&self) -> u64 {
        self.0.iter().map(|(from, end)| end - from).max().unwrap_or(0)
    }
}

/// Draws an HBM.
pub(crate) fn hbm(map: &HbmMap, palette: &Palette, html: &mut Html) {
    html.raw("<section class=\"hbm");
    if map.refused.is_some() {
        html.raw(" full");
    }
    html.raw("\">\n<h3>").text(&map.name).raw("</h3>\n");
    if let Some(refused) = &map.refused {
        html.raw("<p class=\"refused\">").text(refused).raw("</p>\n");
    }
    if let Some(note) = &map.note {
        html.raw("<p class=\"note\">").text(note).raw("</p>\n");
    }
    match &map.layout {
        Layout::Addresses { pools, blocks } => addresses(pools, blocks, palette, html),
        Layout::Shares { shares, used, size } => self::shares(shares, *used, *size, palette, html),
    }
    html.raw("</section>\n");
}

fn addresses(pools: &[Pool], blocks: &[Block], palette: &Palette, html: &mut Html) {
    let lie = sorted(blocks);
    let (pieces, merged) = pieces(&lie);
    let largest = pools.iter().map(|pool| pool.bytes).max().unwrap_or(0);
    let mut free: Vec<(u64, u64)> = Vec::new();
    for pool in pools {
        let holes = Holes::of(pool, &lie);
        let rows = if pool.bytes == largest { ROWS.0 } else { ROWS.1 };
        self::pool(pool, &holes, &pieces, rows, palette, html);
        free.extend(holes.0);
    }
    if merged {
        html.raw("<p class=\"note\">").text(format_args!(
            "{} blocks are drawn as {} pieces of at most {MOST_PIECES}: small neighbours are one, with the gaps between them.",
            thousands(lie.len() as u64),
            thousands(pieces.len() as u64)
        ));
        html.raw("</p>\n");
    }
    let mut by: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (from, end, block) in &lie {
        let (blocks, sum) = by.entry(&block.category).or_default();
        *blocks += 1;
        *sum += end - from;
    }
    let size: u64 = pools.iter().fold(0, |sum, pool| sum.saturating_add(pool.bytes));
    let mut rows: Vec<_> = by
        .into_iter()
        .map(|(name, (count, bytes))| Entry { name, bytes, tol: 0, count: Some(count), colour: None })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows.push(Entry {
        name: "free, in holes (of each pool the largest is green)",
        bytes: free.iter().fold(0, |sum: u64, (from, end)| sum.saturating_add(end - from)),
        tol: 0,
        count: Some(free.len() as u64),
        colour: Some("largest"),
    });
    legend(&rows, size, palette, html);
}

fn pool(pool: &Pool, holes: &Holes, pieces: &[Piece<'_>], rows: u64, palette: &Palette, html: &mut Html) {
    let (left, largest) = (holes.left(), holes.largest());
    let count = holes.0.len() as u64;
    html.raw("<h4>").text(&pool.name).raw("</h4>\n<p>").text(format_args!(
        "{} of {} in use, {} left",
        short(pool.bytes.saturating_sub(left)),
        short(pool.bytes),
        short(left)
    ));
    match count {
        0 => html.raw(": no hole"),
        1 => html.raw(" in one hole"),
        count => html.text(format_args!(" in {} holes, the largest {}", thousands(count), short(largest))),
    };
    html.raw("</p>\n<div class=\"rows\" role=\"img\" aria-label=\"").text(format_args!(
        "Map of {}: {} in use, {} left, the largest hole {}; the table below has what is in it",
        pool.name,
        short(pool.bytes.saturating_sub(left)),
        short(left),
        short(largest)
    ));
    html.raw("\">\n");
    let row = (pool.bytes / rows).max(LEAST_ROW).checked_next_power_of_two().unwrap_or(u64::MAX);
    let end = pool.from.saturating_add(pool.bytes);
    // Of the holes the largest are drawn; the ground has the colour of all.
    let mut drawn = holes.0.clone();
    drawn.sort_by_key(|(from, end)| std::cmp::Reverse(end - from));
    drawn.truncate(MOST_HOLES);
    let mut from = pool.from;
    while from < end {
        let range = (from, from.saturating_add(row).min(end));
        html.raw("<div class=\"row\"><span>+").text(short(from - pool.from));
        html.raw("</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">");
        let place_of = (range, row);
        rect(range, place_of, ["ground", ""], |html| html.text("small holes").end(), html);
        for hole in &drawn {
            let class = if hole.1 - hole.0 == largest { "largest" } else { "hole" };
            let title = |html: &mut Html| html.text(format_args!("hole: {}", place(*hole))).end();
            rect(*hole, place_of, [class, ""], title, html);
        }
        let first = pieces.partition_point(|piece| piece.end <= range.0);
        let shown = pieces.iter().enumerate().skip(first);
        for (place, piece) in shown.take_while(|(_, piece)| piece.from < range.1) {
            // So that neighbours are told apart.
            let shade = if place % 2 == 1 { " alt" } else { "" };
            let class = [palette.class(piece.category), shade];
            rect((piece.from, piece.end), place_of, class, |html| title(piece, html), html);
        }
        html.raw("</svg></div>\n");
        from = range.1;
    }
    html.raw("</div>\n");
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> Option<(u64, u64)> {
    let both = (one.0.max(other.0), one.1.min(other.1));
    (both.0 < both.1).then_some(both)
}

/// The part of a range that lies in a row, if any does, and what it is. Of the classes the second
/// may be empty.
fn rect(
    range: (u64, u64),
    (shown, row): ((u64, u64), u64),
    class: [&'static str; 2],
    title: impl FnOnce(&mut Html),
    html: &mut Html,
) {
    let Some((from, end)) = overlap(range, shown) else { return };
    let unit = |bytes: u64| bytes as f64 / row as f64 * WIDTH;
    html.raw("<rect class=\"").raw(class[0]).raw(class[1]).raw("\" x=\"");
    // What is there at all is seen.
    html.text(format_args!("{:.2}", unit(from - shown.0))).raw("\" width=\"");
    html.text(format_args!("{:.2}", unit(end - from).max(0.7))).raw("\" height=\"10\"><title>");
    title(html);
    html.raw("</title></rect>");
}

fn place((from, end): (u64, u64)) -> String {
    format!("{} at {from:#x}", bytes(end - from))
}

fn title(piece: &Piece<'_>, html: &mut Html) {
    match &piece.what {
        What::One(block) => {
            let named = [&block.category, &block.hint, &block.owner];
            let named: Vec<&str> =
                named.into_iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
            html.text(format_args!("{}: {}", named.join(", "), place((piece.from, piece.end))));
        }
        What::Many { blocks, bytes, by } => {
            html.text(format_args!("{} blocks, {}: ", thousands(*blocks as u64), short(*bytes)));
            for (count, (category, (blocks, bytes))) in by.iter().enumerate() {
                let comma = if count == 0 { "" } else { ", " };
                html.text(format_args!("{comma}{blocks} of {category} ({})", short(*bytes)));
            }
            html.text(format_args!("; from {:#x} to {:#x}", piece.from, piece.end));
        }
    }
}

fn shares(shares: &[Share], used: (u64, u64), size: Option<u64>, palette: &Palette, html: &mut Html) {
    let (used, tol) = used;
    let mut rows: Vec<_> = shares.iter().filter(|share| share.bytes > 0).collect();
    rows.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    let sum = rows.iter().fold(0_u64, |sum, share| sum.saturating_add(share.bytes));
    let rest = used.saturating_sub(sum);
    let whole = size.unwrap_or(0).max(used).max(sum).max(1);
    html.raw("<p>").text(format_args!("{} in use", about(used, tol)));
    match size {
        Some(size) => html.text(format_args!(
            " of {}, {} left; where the blocks are is not known",
            short(size),
            about(size.saturating_sub(used), tol)
        )),
        None => html.raw("; how much there is, and where the blocks are, is not known"),
    };
    html.raw("</p>\n<svg class=\"bar\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    html.text(format_args!("{} of {} in use; the table below has for what", short(used), short(whole)));
    html.raw("\">");
    let all = ((0, whole), whole);
    let text = |text: String| move |html: &mut Html| html.text(text).end();
    rect(
        (0, whole),
        all,
        ["ground", ""],
        text(format!("left: {}", about(whole.saturating_sub(used), tol))),
        html,
    );
    let mut from = 0_u64;
    for share in &rows {
        let end = from.saturating_add(share.bytes);
        let what = format!("{}: {}", share.category, about(share.bytes, share.tol));
        rect((from, end), all, [palette.class(&share.category), ""], text(what), html);
        from = end;
    }
    // Of rounding alone a little is left over.
    if rest > tol.saturating_mul(2) {
        rect(
            (sum, used),
            all,
            ["unnamed", ""],
            text(format!("not told what for: {}", about(rest, tol))),
            html,
        );
    }
    let doubt = (used.saturating_sub(tol), used.saturating_add(tol).min(whole));
    rect(doubt, all, ["doubt", ""], text(format!("give or take {}", short(tol))), html);
    html.raw("</svg>\n");
    let mut entries: Vec<_> = rows
        .iter()
        .map(|it| Entry { name: &it.category, bytes: it.bytes, tol: it.tol, count: None, colour: None })
        .collect();
    let entry = |name, bytes, tol, colour| Entry { name, bytes, tol, count: None, colour: Some(colour) };
    if rest > tol.saturating_mul(2) {
        entries.push(entry("not told what for", rest, tol, "unnamed"));
    }
    if let Some(size) = size {
        entries.push(entry("left", size.saturating_sub(used), tol, "ground"));
    }
    legend(&entries, whole, palette, html);
}

fn about(bytes: u64, tol: u64) -> String {
    if tol == 0 { short(bytes) } else { format!("{} \u{b1} {}", short(bytes), short(tol)) }
}

/// A line of a legend.
struct Entry<'a> {
    name: &'a str,
    bytes: u64,
    tol: u64,
    /// Blocks or holes, where they are known.
    count: Option<u64>,
    /// `None`: that of the category.
    colour: Option<&'static str>,
}

fn legend(rows: &[Entry<'_>], whole: u64, palette: &Palette, html: &mut Html) {
    html.raw(
        "<div class=\"wide\"><table class=\"legend\"><thead><tr><th scope=\"col\">category</th><th scope=\"col\">bytes</th>",
    );
    html.raw("<th scope=\"col\">share</th>");
    if rows.iter().any(|row| row.count.is_some()) {
        html.raw("<th scope=\"col\">count</th>");
    }
    html.raw("</tr></thead><tbody>\n");
    for Entry { name, bytes, tol, count, colour } in rows {
        let percent = *bytes as f64 * 100.0 / whole.max(1) as f64;
        html.raw("<tr><th scope=\"row\"><i class=\"swatch ")
            .raw(colour.unwrap_or_else(|| palette.class(name)));
        html.raw("\"></i>").text(name);
        html.raw("</th><td title=\"").text(format_args!("{} B", thousands(*bytes))).raw("\">");
        html.text(about(*bytes, *tol)).raw("</td><td>").text(format_args!("{percent:.1} %")).raw("</td>");
        if let Some(count) = count {
            html.raw("<td>").text(thousands(*count)).raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}
