/* The search page, instead of mkdocs's: its index is a script, so that it works from files, without a server; options
 * such as --zero-keep may be typed as they are. */
(function () {
  "use strict";
  var MOST = 30, AROUND = 120; // results; characters shown on either side of the first match
  var input = document.getElementById("mkdocs-search-query"), place = document.getElementById("mkdocs-search-results");
  var index, entry = {}, page = {};

  function load(name, then) {
    var script = document.createElement("script");
    script.src = base_url + "/search/" + name;
    script.onload = then;
    document.head.appendChild(script);
  }

  function words(text) {
    return text.toLowerCase().split(/[^a-z0-9_]+/).filter(Boolean);
  }

  function build() {
    lunr.tokenizer.separator = /[^A-Za-z0-9_]+/;
    index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 8 });
      this.field("text");
      foreline_index.forEach(function (e) {
        var path = e.location.split("#")[0];
        page[path] = page[path] || e.title; // the first section is the page's
        entry[e.location] = e;
        this.add(e);
      }, this);
    });
    input.addEventListener("input", show);
    show();
  }

  /* The text around the first of the words, with all of them marked. */
  function summary(text, asked) {
    var low = text.toLowerCase(), typed = low.indexOf(input.value.trim().toLowerCase());
    var at = Math.max(0, typed >= 0 ? typed : low.search(new RegExp("\\b(" + asked.join("|") + ")")));
    var from = Math.max(0, at - AROUND), p = document.createElement("p");
    var part = (from ? "... " : "") + text.slice(from, at + AROUND) + (at + AROUND < text.length ? " ..." : "");
    part.split(new RegExp("\\b((?:" + asked.join("|") + ")\\w*)", "i")).forEach(function (piece, i) {
      p.appendChild(document.createElement(i % 2 ? "b" : "span")).textContent = piece;
    });
    return p;
  }

  /* What has the text as it is typed comes first, then what has all words; records of studies and decisions come last. */
  function weight(e, result, asked) {
    var have = Object.keys(result.matchData.metadata).join(" "), typed = input.value.trim().toLowerCase();
    var all = asked.every(function (word) { return have.indexOf(word.slice(0, 4)) >= 0; });
    return (all ? 3 : 1) * ((e.title + " " + e.text).toLowerCase().indexOf(typed) >= 0 ? 4 : 1) *
      (/^(results|decisions)\//.test(e.location) ? 0.2 : 1);
  }

  function show() {
    var asked = words(input.value);
    place.textContent = asked.length ? "" : "Type a word, an option, a name.";
    if (!asked.length) return;
    var found = index.query(function (q) {
      asked.forEach(function (word) {
        q.term(lunr.tokenizer(word), { boost: 5 });
        q.term(word, { wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false });
      });
    });
    found.forEach(function (result) { result.score *= weight(entry[result.ref], result, asked); });
    found.sort(function (a, b) { return b.score - a.score; });
    found.slice(0, MOST).forEach(function (result) {
      var e = entry[result.ref], path = e.location.split("#")[0], article = document.createElement("article");
      var link = article.appendChild(document.createElement("h3")).appendChild(document.createElement("a"));
      link.href = base_url + "/" + e.location;
      link.textContent = page[path] === e.title ? e.title : page[path] + ": " + e.title;
      article.appendChild(summary(e.text, asked));
      place.appendChild(article);
    });
    if (!found.length) place.textContent = "Nothing has '" + input.value + "'.";
  }

  if (!input || !place) return; // every other page
  input.value = new URLSearchParams(window.location.search).get("q") || "";
  load("lunr.js", function () { load("search_index.js", build); });
})();
