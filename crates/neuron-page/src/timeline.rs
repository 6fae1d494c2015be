//! The timeline: what was in use when, by category, stacked, with the moment that failed.

use neuron_dmem::report::figures::{short, thousands};

use crate::html::Html;
use crate::model::{Axis, Moment, Point, Timeline};
use crate::palette::Palette;

/// Points that are drawn at most; of those between two the fullest.
const MOST_POINTS: usize = 400;
/// Units of the picture.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;

/// Where things are on the picture.
struct Scale {
    first: u64,
    last: u64,
    /// Where the last one ends.
    end: u64,
    top: u64,
}

impl Scale {
    fn of(timeline: &Timeline, peak: u64) -> Self {
        let ats = || timeline.points.iter().map(|it| it.at).chain(timeline.failing.iter().map(|it| it.at));
        let (first, last) = (ats().min().unwrap_or(0), ats().max().unwrap_or(0));
        // What the last event changed is seen too.
        let more = ((last - first) / 100).max(1);
        let top = timeline.limit.unwrap_or(0).max(peak).max(1);
        Self { first, last, end: last.saturating_add(more).max(first.saturating_add(1)), top }
    }

    fn x(&self, at: u64) -> f64 {
        (at.saturating_sub(self.first)) as f64 / (self.end - self.first).max(1) as f64 * WIDTH
    }

    fn y(&self, bytes: u64) -> f64 {
        // Room above for what stands highest.
        HEIGHT - bytes as f64 / self.top as f64 * (HEIGHT - 12.0)
    }
}

fn total(point: &Point) -> u64 {
    point.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// The fullest point of each stretch; all if they are few.
fn thinned(points: &[Point]) -> Vec<&Point> {
    if points.len() <= MOST_POINTS {
        return points.iter().collect();
    }
    let stretch = points.len().div_ceil(MOST_POINTS - 2);
    let fullest = points.chunks(stretch).filter_map(|part| part.iter().max_by_key(|it| total(it)));
    let ends = points.first().into_iter().chain(points.last());
    let mut kept: Vec<&Point> = fullest.chain(ends).collect();
    kept.sort_by_key(|point| point.at);
    kept.dedup_by_key(|point| point.at);
    kept
}

/// Draws a timeline.
pub(crate) fn timeline(timeline: &Timeline, palette: &Palette, html: &mut Html) {
    let Some(peak) = timeline.points.iter().max_by_key(|point| total(point)) else { return };
    let points = thinned(&timeline.points);
    let scale = Scale::of(timeline, total(peak));
    let at = |at: u64| match timeline.axis {
        Axis::Events => format!("event {}", thousands(at)),
        Axis::Nanoseconds => format!("{:.3} s", at as f64 / 1e9),
    };
    html.raw("<section class=\"timeline\">\n<h2>Timeline</h2>\n<p>").text(&timeline.label);
    html.text(format_args!(". Peak: {} at {}.", short(total(peak)), at(peak.at)));
    if points.len() < timeline.points.len() {
        html.text(format_args!(
            " Of {} points {} are drawn, the fullest of each stretch.",
            thousands(timeline.points.len() as u64),
            points.len()
        ));
    }
    html.raw("</p>\n");
    if let Some(failing) = &timeline.failing {
        html.raw("<p class=\"refused\">").text(format_args!("Failed at {}: ", at(failing.at)));
        html.text(&failing.text).raw("</p>\n");
    }
    html.raw("<div class=\"plot\"><div class=\"scale\" aria-hidden=\"true\"><span>").text(short(scale.top));
    html.raw("</span><span>").text(short(scale.top / 2)).raw("</span><span>0</span></div>\n");
    html.raw("<svg viewBox=\"0 0 1000 300\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"");
    html.text(format_args!(
        "Bytes in use from {} to {}; the peak is {}; the table below has the figures",
        at(scale.first),
        at(scale.last),
        short(total(peak))
    ));
    html.raw("\">\n");
    for (place, category) in timeline.categories.iter().enumerate() {
        area(&points, place, palette.class(category), &scale, html);
        html.raw("<title>").text(category).raw("</title></path>\n");
    }
    if let Some(limit) = timeline.limit {
        let y = scale.y(limit);
        html.raw("<path class=\"limit\" d=\"M0 ").text(format_args!("{y:.1}H1000")).raw("\"><title>");
        html.text(format_args!("{} is all there is", short(limit))).raw("</title></path>\n");
    }
    if let Some(Moment { at: place, text }) = &timeline.failing {
        html.raw("<path class=\"failing\" d=\"M").text(format_args!("{:.1} 0V300", scale.x(*place)));
        html.raw("\"><title>").text(format_args!("{}: {text}", at(*place))).raw("</title></path>\n");
    }
    html.raw("</svg></div>\n<div class=\"ends\" aria-hidden=\"true\"><span>").text(at(scale.first));
    html.raw("</span><span>").text(at(scale.last)).raw("</span></div>\n");
    figures(timeline, peak, &scale, palette, html);
    html.raw("</section>\n");
}

/// Opens the area of a category: between the sum of those before it and that with it.
fn area(points: &[&Point], place: usize, class: &'static str, scale: &Scale, html: &mut Html) {
    let sum = |point: &Point, count: usize| {
        point.bytes.iter().take(count).fold(0_u64, |sum, bytes| sum.saturating_add(*bytes))
    };
    let Some(first) = points.first() else { return };
    html.raw("<path class=\"").raw(class).raw("\" d=\"M");
    let mut path = format!("{:.1} {:.1}", scale.x(first.at), scale.y(sum(first, place + 1)));
    // What is in use stays until the next event.
    for point in points.iter().skip(1) {
        path += &format!("H{:.1}V{:.1}", scale.x(point.at), scale.y(sum(point, place + 1)));
    }
    path += "H1000";
    let mut until = WIDTH;
    for point in points.iter().rev() {
        path += &format!("H{until:.1}V{:.1}", scale.y(sum(point, place)));
        until = scale.x(point.at);
    }
    path += &format!("H{until:.1}Z");
    // Figures alone, however long.
    for part in path.as_bytes().chunks(1000).filter_map(|part| str::from_utf8(part).ok()) {
        html.text(part);
    }
    html.raw("\">");
}

/// The same in figures: at the peak, when it failed, at the end.
fn figures(timeline: &Timeline, peak: &Point, scale: &Scale, palette: &Palette, html: &mut Html) {
    let before = |at: u64| timeline.points.iter().rev().find(|point| point.at <= at);
    let failed = timeline.failing.as_ref().and_then(|failing| before(failing.at));
    let last = before(scale.last);
    let columns = [("at the peak", Some(peak)), ("when it failed", failed), ("at the end", last)];
    let columns: Vec<_> = columns.into_iter().filter_map(|(name, point)| Some((name, point?))).collect();
    html.raw("<div class=\"wide\"><table class=\"legend\"><thead><tr><th scope=\"col\">category</th>");
    for (name, _) in &columns {
        html.raw("<th scope=\"col\">").text(name).raw("</th>");
    }
    html.raw("</tr></thead><tbody>\n");
    for (place, category) in timeline.categories.iter().enumerate() {
        html.raw("<tr><th scope=\"row\">");
        palette.swatch(category, html);
        html.raw("</th>");
        for (_, point) in &columns {
            let bytes = point.bytes.get(place).copied().unwrap_or(0);
            html.raw("<td>").text(short(bytes)).raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_the_fullest_and_both_ends_are_drawn() {
        let mut points: Vec<_> = (0..1_000_000).map(|at| Point { at, bytes: vec![at % 100] }).collect();
        points[777_777].bytes = vec![5000, 1];
        let drawn = thinned(&points);
        assert!(drawn.len() <= MOST_POINTS && drawn.len() > MOST_POINTS / 2, "{}", drawn.len());
        assert!(drawn.is_sorted_by_key(|point| point.at));
        assert_eq!((drawn[0].at, drawn.last().unwrap().at), (0, 999_999));
        assert!(drawn.iter().any(|point| total(point) == 5001));
    }
}
