//! The page as a whole. Its policy forbids all but its own style and its own script, which the
//! browser knows by its digest: even markup that broke out could load and run nothing.

use crate::html::Html;
use crate::model::{Page, Verdict};
use crate::palette::Palette;
use crate::{map, table, timeline};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// HBMs that are drawn at most.
const MOST_HBMS: usize = 64;

impl Page {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let palette = Palette::of(self);
        let mut html = Html::default();
        html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; ",
        );
        html.raw("form-action 'none'; style-src 'unsafe-inline'; script-src 'sha256-dx17CO+K6PsDA3BuenENUk5LyNITftG3oRmlq9kMbwM='\">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>").text(&self.title);
        html.raw("</title>\n<style>\n").raw(STYLE).raw("</style>\n</head>\n<body>\n<main>\n");
        self.head(&mut html);
        if !self.hbms.is_empty() {
            html.raw("<h2>Memory</h2>\n");
            if let Some(more @ 1..) = self.hbms.len().checked_sub(MOST_HBMS) {
                html.raw("<p class=\"note\">")
                    .text(format_args!("{more} more HBMs are not drawn."))
                    .raw("</p>\n");
            }
            html.raw(
                "<p id=\"picked\" class=\"note\" hidden aria-live=\"polite\"></p>\n<div class=\"hbms\">\n",
            );
            for hbm in self.hbms.iter().take(MOST_HBMS) {
                map::hbm(hbm, &palette, &mut html);
            }
            html.raw("</div>\n");
        }
        if let Some(timeline) = &self.timeline {
            timeline::timeline(timeline, &palette, &mut html);
        }
        if let Some(owners) = &self.owners {
            table::table(owners, &mut html);
        }
        html.raw("</main>\n<script>").raw(SCRIPT).raw("</script>\n</body>\n</html>\n");
        html.finish()
    }

    fn head(&self, html: &mut Html) {
        html.raw("<header>\n<h1>").text(&self.title).raw("</h1>\n<p class=\"sentence ");
        html.raw(match self.verdict {
            Verdict::Good => "good",
            Verdict::Bad => "bad",
            Verdict::Neutral => "neutral",
        });
        html.raw("\">").text(&self.sentence).raw("</p>\n</header>\n");
        if !self.facts.is_empty() {
            html.raw("<dl>\n");
            for fact in &self.facts {
                html.raw("<dt>").text(&fact.name).raw("</dt><dd>").text(&fact.text).raw("</dd>\n");
            }
            html.raw("</dl>\n");
        }
        for note in &self.notes {
            html.raw("<p class=\"note\">").text(note).raw("</p>\n");
        }
    }
}
