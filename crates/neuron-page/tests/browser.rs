//! Pages in a headless Chromium: nothing is wider than the window, the filter hides rows, hostile
//! text runs nothing, and pages print.
//!
//! The browser is `CHROMIUM`, or the first of the usual names on `PATH`. Without one the tests say
//! so and pass, but for `CI=true` or `NEURON_MEM_BROWSER=required`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set itself up should stop")]

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use neuron_page::Page;

const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CHROMIUM") {
        return Some(named.into());
    }
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let all = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = all.into_iter().find(|path| path.is_file());
    let is_required = env::var("CI").is_ok_and(|it| it == "true")
        || env::var("NEURON_MEM_BROWSER").is_ok_and(|it| it == "required");
    assert!(found.is_some() || !is_required, "no browser: install chromium, or name one in CHROMIUM");
    if found.is_none() {
        println!("SKIPPED: no browser; install chromium, or name one in CHROMIUM");
    }
    found
}

/// A page in a folder of its own, and a browser.
struct Shown {
    folder: tempfile::TempDir,
    browser: PathBuf,
}

impl Shown {
    /// `None` without a browser.
    fn new(html: &str) -> Option<Self> {
        let browser = browser()?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("page.html"), html).unwrap();
        Some(Self { folder, browser })
    }

    fn run(&self, options: &[&str], page: &str) -> String {
        let mut command = Command::new(&self.browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()));
        let address = format!("file://{}/{page}", self.folder.path().display());
        let output = command.args(options).arg(address).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn dom(&self, fragment: &str) -> String {
        self.run(&["--dump-dom"], &format!("page.html{fragment}"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A page with markup of the test's own at its end.
fn with(page: &Page, markup: &str) -> String {
    page.html().replace("</body>", &format!("{markup}</body>"))
}

/// The same without the policy, so that a script of the test's own runs.
fn unprotected(page: &Page, script: &str) -> String {
    with(page, &format!("<script>{script}</script>")).replace("Content-Security-Policy", "None")
}

/// What a script of the test wrote into the title.
fn title(dom: &str) -> &str {
    dom.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0
}

#[test]
fn nothing_is_wider_than_the_window_of_a_phone_or_a_desk() {
    // The window of a headless browser has a least width: frames have none.
    let Some(shown) = Shown::new(&common::full().html()) else { return };
    for width in [320, 360, 768, 1280] {
        let outer = format!(
            "<!DOCTYPE html><title>none</title><iframe id=f src=page.html style='width:{width}px;height:4000px;border:0'>\
             </iframe><script>f.onload = function () {{ var d = f.contentDocument;\
             document.title = d.documentElement.scrollWidth + ' ' + f.contentWindow.innerWidth; }}</script>"
        );
        fs::write(shown.file("outer.html"), outer).unwrap();
        let dom = shown.run(
            &[
                "--dump-dom",
                "--hide-scrollbars",
                "--allow-file-access-from-files",
                "--virtual-time-budget=5000",
            ],
            "outer.html",
        );
        let (page, window) = title(&dom).split_once(' ').unwrap();
        assert_eq!(window, width.to_string());
        assert_eq!(page, window, "in a window of {width}");
    }
}

#[test]
fn the_filter_hides_the_rows_that_lack_a_word() {
    let Some(shown) = Shown::new(&common::full().html()) else { return };
    let rows = |dom: &str| -> (usize, usize) {
        let body = dom.split_once("id=\"owners\"").unwrap().1.split_once("<tbody>").unwrap().1;
        let body = body.split_once("</tbody>").unwrap().0;
        (body.matches("<tr>").count(), body.matches("<tr hidden").count())
    };
    let all = shown.dom("");
    assert_eq!(rows(&all), (30, 0));
    assert!(all.contains("30 of 30") && !all.contains("id=\"filter-box\" hidden"), "the script ran");
    assert_eq!(rows(&shown.dom("#filter=Layers.7.")), (1, 29));
    assert_eq!(rows(&shown.dom("#filter=layers.2%20DOWN")), (11, 19), "2 and 20 to 29");
    assert_eq!(rows(&shown.dom("#filter=nowhere")), (0, 30));
    assert_eq!(rows(&shown.dom("#filter=%")), (30, 0), "what is no fragment of ours is none");
}

#[test]
fn typing_filters_and_is_kept_in_the_address() {
    let typing = "var box = document.getElementById('filter'); box.value = 'layers.7.';\
                  box.dispatchEvent(new Event('input'));\
                  document.title = document.querySelectorAll('#owners tbody tr:not([hidden])').length + ' '\
                      + location.hash;";
    let Some(shown) = Shown::new(&unprotected(&common::full(), typing)) else { return };
    assert_eq!(title(&shown.dom("")), "1 #filter=layers.7.");
}

#[test]
fn hostile_text_makes_no_elements_and_runs_nothing() {
    let count = "document.title = document.querySelectorAll('img, b, script').length;";
    let Some(shown) = Shown::new(&unprotected(&common::hostile(), count)) else { return };
    assert_eq!(title(&shown.dom("#filter=%3Cimg%20src%3Dx%3E")), "2", "the page's script and the test's");
}

#[test]
fn the_policy_lets_nothing_else_run() {
    let page = Page { title: "calm".into(), ..common::full() };
    let markup = "<script>document.title = 'OWNED'</script><img src=x onerror=\"document.title='OWNED'\">";
    let Some(shown) = Shown::new(&with(&page, markup)) else { return };
    let dom = shown.dom("");
    assert_eq!(title(&dom), "calm");
    assert!(dom.contains("30 of 30"), "its own script ran");
}

#[test]
fn pages_print_and_can_be_looked_at() {
    let Some(shown) = Shown::new(&common::full().html()) else { return };
    let (pdf, png) = (shown.file("page.pdf"), shown.file("page.png"));
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    shown.run(&["--no-pdf-header-footer", &option("print-to-pdf", &pdf)], "page.html");
    shown.run(&["--window-size=1280,2000", &option("screenshot", &png)], "page.html");
    let (pdf, png) = (fs::read(pdf).unwrap(), fs::read(png).unwrap());
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 10_000, "{} bytes", pdf.len());
    assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000, "{} bytes", png.len());
}
