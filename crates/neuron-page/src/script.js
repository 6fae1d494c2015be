
"use strict";
(function () {
  // What a block is, for those who cannot hover.
  var picked = document.getElementById("picked");
  document.addEventListener("click", function (event) {
    var shape = event.target.closest && event.target.closest("rect, path");
    var title = shape && shape.querySelector("title");
    if (!picked || !title) { return; }
    var last = document.querySelector(".chosen");
    if (last) { last.classList.remove("chosen"); }
    shape.classList.add("chosen");
    picked.textContent = title.textContent;
    picked.hidden = false;
  });

  var box = document.getElementById("filter");
  if (!box) { return; }
  var count = document.getElementById("count");
  var rows = Array.prototype.map.call(document.querySelectorAll("#owners tbody tr"), function (row) {
    var cells = Array.prototype.map.call(row.cells, function (cell) { return cell.textContent; });
    return { row: row, text: cells.join(" ").toLowerCase() };
  });

  function apply() {
    var words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    var shown = 0;
    rows.forEach(function (it) {
      var has = words.every(function (word) { return it.text.indexOf(word) >= 0; });
      it.row.hidden = !has;
      shown += has ? 1 : 0;
    });
    count.textContent = shown + " of " + rows.length;
  }

  function read() {
    var found = /^#filter=(.*)$/.exec(location.hash);
    try {
      box.value = found ? decodeURIComponent(found[1]) : "";
    } catch (error) {
      box.value = "";
    }
    apply();
  }

  box.addEventListener("input", function () {
    apply();
    try {
      history.replaceState(null, "", box.value ? "#filter=" + encodeURIComponent(box.value) : "#");
    } catch (error) {
      // Some places allow no history; the filter works all the same.
    }
  });
  window.addEventListener("hashchange", read);
  document.getElementById("filter-box").hidden = false;
  read();
})();
